// modify_qp(): checks a change of a QP as a whole, then applies it. A refused change leaves the QP as it was.
#include "adapter/adapter.h"
#include "adapter/adapter_parts.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/queues/qp_rules.h"
#include "adapter/transport/path_migration.h"

namespace weft::adapter {
namespace {

/// The path of a QP is changed only while no request is in flight. The cells of a new port must have the size
/// of those of half-received packets.
ModifyResult check_move(const AdapterParts& parts, const QueuePair& qp, const QpAttr& attr,
                        uint32_t mask) noexcept {
  const Engine& engine = parts.engine;
  const bool to_port = (mask & kQpAttrPort) != 0;
  if ((mask & kQpAttrCurState) != 0 && attr.cur_state != qp.state) return Reason::kOtherState;
  const ModifyResult migration = check_migration(engine, qp, attr, mask);
  if (migration != ModifyResult::kOk) return migration;
  if (to_port && attr.port != qp.port && (engine.groups.has(qp) || parts.protocols.has(qp)))
    return Reason::kBoundToPort;
  if ((mask & kQpAttrPkeyIndex) != 0) {
    const AdapterPort& at = *engine.ports[(to_port ? attr.port : qp.port) - 1U];
    if ((at.pkeys()[attr.pkey_index] & ~kPkeyFullMember) == 0) return Reason::kNoPartition;
  }
  if (to_port && is_management(qp.qpn) && attr.port != qp.config.port) return Reason::kBoundToPort;
  if (qp.state != QpState::kSqd || (mask & (kQpAttrAddress | kQpAttrPort)) == 0) return ModifyResult::kOk;
  if (!Completer::drained(qp)) return Reason::kNotDrained;
  const AdapterPort& port = *engine.ports[(to_port ? attr.port : qp.port) - 1U];
  const bool other_cells = port.known() && qp.path.segment_bytes != port.info().cell_payload_bytes;
  return to_port && other_cells ? Reason::kOtherCells : Reason::kOk;
}

/// Applies checked attributes.
void take_attributes(Engine& engine, QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept {
  const PathMigState before = qp.attr.path_mig_state;
  merge_qp_attr(qp.attr, attr, mask);
  if (qp.ways != nullptr && (mask & kQpAttrAltPath) != 0) qp.ways->off = true;
  if ((mask & kQpAttrPort) != 0) {
    engine.use_port(qp, qp.attr.port);
    qp.port_seen = engine.port_of(qp).change();
  }
  if ((mask & (kQpAttrPort | kQpAttrPkeyIndex)) != 0) engine.renew_path(qp);
  if (qp.state == QpState::kSqd && (mask & (kQpAttrAddress | kQpAttrPort)) != 0) {
    qp.peer_lid = qp.attr.dlid;
    engine.renew_path(qp);
    engine.keep_path(qp);
    watch_port(engine, qp);
    engine.schedule.wait_no_more(qp);
    if (qp.ways != nullptr) engine.several_nics->ways.begin(qp);
  }
  if ((mask & kQpAttrPathMigState) == 0 || qp.attr.path_mig_state == before) return;
  const bool rearms = qp.attr.path_mig_state == PathMigState::kRearm;
  qp.watch = static_cast<uint8_t>(rearms ? qp.watch | kWatchPeerArmed : qp.watch & ~kWatchPeerArmed);
  engine.renew_path(qp);  // the path's template puts the state into cells
  if (before != PathMigState::kArmed || rearms) return;
  qp.attr.path_mig_state = before;  // move_path() changes it if the alternate path is of use
  (void)move_path(engine, qp);
}

void enter_state(AdapterParts& parts, QueuePair& qp, QpState from) noexcept {
  Engine& engine = parts.engine;
  const QpState to = qp.state;
  if (to == QpState::kReset) {
    if (qp.ways != nullptr) engine.several_nics->ways.forget(qp);
    forget_everything(engine, qp);
  }
  if (to == QpState::kRtr && from == QpState::kInit) {
    start_receiving(engine, qp);
    if (qp.row == &kRcRow && parts.direct != nullptr) parts.direct->offer(qp);
  }
  if (to == QpState::kRts && from == QpState::kRtr) {
    start_sending(engine, qp);
    if (qp.ways != nullptr) engine.several_nics->ways.begin(qp);
  }
  if (to == QpState::kRts && from == QpState::kSqe) qp.tx.halted = false;
  if (to == QpState::kSqd && from == QpState::kRts) qp.service->drain(qp);
  if (to == QpState::kErr && from != QpState::kErr) {
    qp.failed_by = Reason::kEndedByProgram;
    flush_all(engine, qp);
  }
  if (qp.abilities().execute_send) engine.schedule.want_send(qp);
  if (qp.abilities().receive) {
    qp.service->modified(qp);
  } else {
    qp.service->forget(qp);
  }
}

}  // namespace

ModifyResult ChannelAdapter::modify_qp(QueuePair& qp, const QpAttr& attr, uint32_t mask) {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  engine.count(AdapterCounter::kAgentCalls);
  if (qp.owner != &engine) return Reason::kForeignObject;
  const QpState to = (mask & kQpAttrState) != 0 ? attr.state : qp.state;
  ModifyResult result = check_qp_move(qp.row->states_like, qp.state, to, mask);
  if (result != ModifyResult::kOk) return result;
  result = check_qp_values(attr, mask, static_cast<uint32_t>(engine.ports.size()));
  if (result != ModifyResult::kOk) return result;
  result = check_move(parts, qp, attr, mask);
  if (result != ModifyResult::kOk) return result;
  const QpState from = qp.state;
  if (to == QpState::kReset || to == QpState::kErr) qp.service->say_last_words(qp);
  take_attributes(engine, qp, attr, mask);
  qp.state = qp.attr.state = to;
  // The attribute is used by this move and not stored.
  if (to == QpState::kSqd && from == QpState::kRts)
    qp.tx.drain_reported = (mask & kQpAttrSqdNotify) == 0 || !attr.sqd_notify;
  enter_state(parts, qp, from);
  return ModifyResult::kOk;
}

QpAttr ChannelAdapter::query_qp(const QueuePair& qp) const {
  QpAttr attr = qp.attr;
  attr.state = attr.cur_state = qp.state;
  attr.sq_draining = qp.state == QpState::kSqd && !Completer::drained(qp);
  return attr;
}

}  // namespace weft::adapter
