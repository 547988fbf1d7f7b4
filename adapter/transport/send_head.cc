#include "adapter/transport/send_head.h"

namespace weft::adapter {

/// Executes a bind, an invalidation or a registration on the protection table.
SendFault SendHead::change_memory(QueuePair& qp, const SendWqe& wqe) noexcept {
  const PdId pd = qp.config.pd;
  const Accessor who(pd, qp.qpn);
  AccessFault fault = AccessFault::kNone;
  const ComputerMemory& computer = engine_.computer;  // a command goes to the NIC that made the key
  switch (wqe.rule->work) {
    case SendWork::kBind:
      fault = computer.of(wqe.bind.window.value()).windows.bind_window(who, wqe.bind);
      break;
    case SendWork::kUnbind:
      fault = computer.of(wqe.bind.window.value()).windows.destroy_window(pd, wqe.bind.window);
      break;
    case SendWork::kInvalidate: {
      MemoryTable& memory = computer.of(wqe.rkey.value());
      fault = memory.windows.invalidate(who, wqe.rkey);
      if (fault == AccessFault::kWrongType)
        fault = memory.regions.invalidate_region(pd, Lkey(wqe.rkey.value()));
      break;
    }
    case SendWork::kRegister:
      if (qp.config.registration == SendRegistration::kOff) return {Reason::kNoRegistration};
      fault = computer.of(wqe.registration.lkey.value()).regions.fill_reserved(pd, wqe.registration);
      break;
    case SendWork::kDelay:
    case SendWork::kMessage:
    case SendWork::kRead:
    case SendWork::kAtomic:
      break;  // not executed here
  }
  if (fault == AccessFault::kNone) return {Reason::kNone};
  engine_.faults.add(fault);
  return {bind_reason(fault)};
}

bool SendHead::run_local(QueuePair& qp, SendWqe& wqe) noexcept {
  if (wqe.rule->work != SendWork::kDelay) {
    const SendFault fault = change_memory(qp, wqe);
    if (fault.reason == Reason::kNone) {
      finish(qp, wqe);
    } else {
      fail(qp, wqe, fault);
    }
    return true;
  }
  if (!wqe.started) {
    wqe.started = true;
    qp.tx.delay_until = engine_.now + wqe.delay;
    engine_.timers.arm(qp, qp.tx.delay_until);
    return false;
  }
  qp.tx.delay_until = Instant::min();
  finish(qp, wqe);
  return true;
}

void SendHead::finish(QueuePair& qp, SendWqe& wqe) noexcept {
  wqe.done = true;
  ++qp.sq.started;
  completer_.retire(qp);
}

void SendHead::fail(QueuePair& qp, SendWqe& wqe, const SendFault& fault) noexcept {
  completer_.fail_wqe(qp, wqe, fault);
  ++qp.sq.started;
  qp.tx.halted = true;
  if (wqe.rule->work == SendWork::kRegister) completer_.registration_failed(qp);
  completer_.retire(qp);
}

SendFault SendHead::bad_segment(QueuePair& qp, uint64_t place, AccessKind kind) noexcept {
  const Sge* segment = writer_.find_bad_segment(qp, place, kind);
  AccessFault fault = writer_.fault_of(qp.config.pd, segment, kind);
  if (fault == AccessFault::kNone) fault = AccessFault::kNotMapped;  // allowed, but no page is mapped
  return {local_reason(fault), segment};
}

}  // namespace weft::adapter
