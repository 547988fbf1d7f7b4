// adapter/transport/responder_faults.h -- what follows when the responder refuses a packet: one table from
// fault to NAK code, completion of the receive WQE, asynchronous event and QP state (house style 26, C-23).
#pragma once

#include <array>

#include "adapter/events.h"
#include "adapter/queues/queue_pair.h"
#include "messages/cell.h"

namespace weft::adapter {

struct FaultRule {
  ResponderFault fault;
  AckCode nak;
  bool ends_qp;        // the QP goes to the error state
  bool ends_recv_wqe;  // the receive WQE in use completes with `recv_status`
  WcStatus recv_status;
  AsyncEventKind event;
};

inline constexpr std::array kFaultRules{
    FaultRule{ResponderFault::kNone, AckCode::kAck, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal},
    FaultRule{ResponderFault::kUnsupported, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError},
    FaultRule{ResponderFault::kRemoteAccess, AckCode::kRemoteAccess, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpAccessError},
    FaultRule{ResponderFault::kTooLong, AckCode::kNotSupported, true, true, WcStatus::kLocalLength,
              AsyncEventKind::kQpRequestError},
    FaultRule{ResponderFault::kLocalAccess, AckCode::kRemoteOperation, true, true, WcStatus::kLocalProtection,
              AsyncEventKind::kQpFatal},
    FaultRule{ResponderFault::kPacketCrc, AckCode::kPacketCrc, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal},
    FaultRule{ResponderFault::kViolation, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError},
};
static_assert(kFaultRules.size() == static_cast<size_t>(ResponderFault::kCount));

[[nodiscard]] constexpr const FaultRule& fault_rule(ResponderFault fault) noexcept {
  return kFaultRules[static_cast<size_t>(fault)];
}

}  // namespace weft::adapter
