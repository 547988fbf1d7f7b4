#include "adapter/sweep.h"

#include <algorithm>
#include <utility>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/completer.h"
#include "adapter/transport/path_migration.h"
#include "adapter/transport/service.h"

namespace weft::adapter {
namespace {

/// Moves a QP to the error state for a reason outside its own work.
void fail_qp(Engine& engine, QueuePair& qp, Reason reason) noexcept {
  if (qp.state != QpState::kErr) engine.report(qp, {.reason = reason});
  enter_error(engine, qp, AsyncEventKind::kQpFatal, rule_of(reason).status);
  qp.service->forget(qp);
}

}  // namespace

void Sweep::begin() noexcept {
  again_ = left_ != 0;
  if (left_ == 0) left_ = engine_.qps.all().size();
}

void Sweep::begin_for_overrun() noexcept {
  overrun_ = true;
  begin();
}

/// Tells the next QPs about a change. A change for all QPs is spread over several turns, so that a turn's
/// cost does not depend on their number.
void Sweep::run() noexcept {
  for (uint32_t told = 0; told < kSweptPerTurn && left_ > 0; ++told) {
    left_ = std::min(left_, engine_.qps.all().size());
    if (left_ > 0) tell(*engine_.qps.all()[--left_]);
  }
  if (left_ != 0) return;
  if (std::exchange(again_, false)) return begin();
  if (engine_.overrun_news) return;  // a CQ marked during this sweep: the next one tells all its QPs
  if (std::exchange(overrun_, false)) cqs_.end_overrun();
}

void Sweep::tell(QueuePair& qp) noexcept {
  const bool lives = qp.state != QpState::kReset && qp.state != QpState::kErr;
  if (lives && (qp.config.send_cq->fails_users || qp.config.recv_cq->fails_users)) {
    return fail_qp(engine_, qp, Reason::kCqOverrun);  // a completion of the QP was lost
  }
  const AdapterPort& port = engine_.port_of(qp);
  const bool armed = qp.attr.path_mig_state == PathMigState::kArmed && !qp.path.loops && lives;
  // If the other path is of no use either, the QP waits for its port until the port expires.
  if (!port.up() && port.known() && armed && (move_path(engine_, qp) || !port.expired())) return;
  if (!port.up() && port.known() && qp.ways != nullptr) engine_.several_nics->ways.search(qp);
  if (std::exchange(qp.port_seen, port.change()) == port.change()) return;
  if (port.expired()) {
    expire(qp);
  } else if (port.up()) {
    renew(qp);
  }
}

/// The QP's port has come up: missing packets are sent again at once.
void Sweep::renew(QueuePair& qp) noexcept {
  (void)engine_.path_ready(qp);
  // Packets in flight were cut for another cell size and cannot be repeated.
  if (qp.other_cells) return fail_qp(engine_, qp, Reason::kCellsChanged);
  engine_.schedule.wait_no_more(qp);
  if (qp.answers) engine_.schedule.want_send(qp);  // also in RTR
  if (!qp.abilities().finish_send) return;
  qp.service->repeat_by_new_link(qp);
  engine_.schedule.want_send(qp);
}

void Sweep::expire(QueuePair& qp) noexcept {
  if (!qp.acknowledged() || !qp.abilities().receive || qp.path.loops || qp.row->by_window) return;
  qp.service->fail_oldest(qp, {Reason::kPortDown});
  fail_qp(engine_, qp, Reason::kPortDown);
}

}  // namespace weft::adapter
