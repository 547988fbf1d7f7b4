// adapter/transport/send_head.h -- the request at the head of a send queue, over cells and over memory
// windows: whether it may run, the checks before its first byte leaves, and the execution of a request that
// moves no data.
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/completer.h"

namespace weft::adapter {

/// How a request uses its own data segments.
[[nodiscard]] inline AccessKind local_use_of(const SendWqe& wqe) noexcept {
  return wqe.rule->is_read() ? AccessKind::kLocalWrite : AccessKind::kLocalRead;
}

class SendHead {
 public:
  SendHead(Engine& engine, CellWriter& writer, Completer& completer) noexcept
      : engine_(engine), writer_(writer), completer_(completer) {}

  /// State, delay and order let the request start or go on. A fenced one waits for `reads_under_way`.
  [[nodiscard]] bool may_run(const QueuePair& qp, bool reads_under_way) const noexcept;
  /// The checks of a request that moves data. Reason::kNone: it may be sent.
  [[nodiscard]] SendFault check(QueuePair& qp, const SendWqe& wqe) noexcept;
  /// The fault of a request whose data segments failed a check.
  [[gnu::cold, nodiscard]] SendFault bad_segment(QueuePair& qp, uint64_t place, AccessKind kind) noexcept;
  /// Executes a request that moves no data. False for a delay that has begun: nothing behind it may run.
  [[nodiscard]] bool run_local(QueuePair& qp, SendWqe& wqe) noexcept;
  /// The request fails, and no further one starts.
  [[gnu::cold]] void fail(QueuePair& qp, SendWqe& wqe, const SendFault& fault) noexcept;

 private:
  [[nodiscard]] SendFault change_memory(QueuePair& qp, const SendWqe& wqe) noexcept;
  void finish(QueuePair& qp, SendWqe& wqe) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  Completer& completer_;
};

[[gnu::always_inline]] inline bool SendHead::may_run(const QueuePair& qp,
                                                     bool reads_under_way) const noexcept {
  const SendSide& tx = qp.tx;
  if (tx.halted || qp.sq.started == qp.sq.rung || engine_.now < tx.delay_until) return false;
  const SendWqe& wqe = qp.sq.at(qp.sq.started);
  // While the queue drains, started WQEs are finished and none is started.
  const bool may = wqe.started ? qp.abilities().finish_send : qp.abilities().execute_send;
  const bool fenced = !wqe.started && (wqe.flags & kSendFence) != 0 && reads_under_way;
  if (!may || fenced) return false;
  // Earlier WQEs that are not completed may have to read their memory again for a repetition.
  return wqe.rule->work != SendWork::kInvalidate || qp.sq.done == qp.sq.started;
}

[[gnu::always_inline]] inline SendFault SendHead::check(QueuePair& qp, const SendWqe& wqe) noexcept {
  const AccessKind kind = local_use_of(wqe);
  if (!writer_.check_segments(qp, qp.sq.started, kind)) return bad_segment(qp, qp.sq.started, kind);
  if (wqe.rule->is_read() && qp.attr.max_rd_atomic == 0) return {Reason::kNoReadsAllowed};
  return {Reason::kNone};
}

}  // namespace weft::adapter
