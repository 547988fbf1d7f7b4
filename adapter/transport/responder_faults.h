// adapter/transport/responder_faults.h -- the consequences of a refused packet: one table from fault to NAK
// code, completion of the receive WQE, asynchronous event, QP state and counters (house style 26, C-23).
#pragma once

#include <array>

#include "adapter/events.h"
#include "adapter/queues/queue_pair.h"
#include "messages/cell.h"

namespace weft::adapter {

struct FaultRule {
  ResponderFault fault;
  AckCode nak;         // only services with acknowledgements
  bool ends_qp;        // RC: the QP goes to the error state
  bool ends_recv_wqe;  // RC: the receive WQE in use completes with `recv_status`
  WcStatus recv_status;
  AsyncEventKind event;
  QpCounter counter;
  AdapterCounter drop;  // kCount: only the QP's counter counts
};

inline constexpr std::array kFaultRules{
    FaultRule{ResponderFault::kNone, AckCode::kAck, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal, QpCounter::kCount, AdapterCounter::kCount},
    FaultRule{ResponderFault::kUnsupported, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError, QpCounter::kRequestsRefused, AdapterCounter::kDropService},
    FaultRule{ResponderFault::kNotGranted, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError, QpCounter::kAccessRefused, AdapterCounter::kDropAccess},
    FaultRule{ResponderFault::kWrongQkey, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError, QpCounter::kRequestsRefused, AdapterCounter::kDropQkey},
    FaultRule{ResponderFault::kWrongSrq, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError, QpCounter::kRequestsRefused, AdapterCounter::kDropXrcSrq},
    FaultRule{ResponderFault::kNoRecvWqe, AckCode::kReceiverNotReady, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal, QpCounter::kRequestsRefused, AdapterCounter::kDropNoRecvWqe},
    FaultRule{ResponderFault::kRemoteAccess, AckCode::kRemoteAccess, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpAccessError, QpCounter::kAccessRefused, AdapterCounter::kDropAccess},
    FaultRule{ResponderFault::kTooLong, AckCode::kNotSupported, true, true, WcStatus::kLocalLength,
              AsyncEventKind::kQpRequestError, QpCounter::kRequestsRefused, AdapterCounter::kDropLength},
    FaultRule{ResponderFault::kLocalAccess, AckCode::kRemoteOperation, true, true, WcStatus::kLocalProtection,
              AsyncEventKind::kQpFatal, QpCounter::kRequestsRefused, AdapterCounter::kDropAccess},
    FaultRule{ResponderFault::kPacketCrc, AckCode::kPacketCrc, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal, QpCounter::kPacketCrcErrors, AdapterCounter::kCount},
    FaultRule{ResponderFault::kViolation, AckCode::kNotSupported, true, false, WcStatus::kFlushed,
              AsyncEventKind::kQpRequestError, QpCounter::kProtocolViolations, AdapterCounter::kCount},
    FaultRule{ResponderFault::kAwaitsKey, AckCode::kAck, false, false, WcStatus::kSuccess,
              AsyncEventKind::kQpFatal, QpCounter::kCount, AdapterCounter::kCount},
};
static_assert(kFaultRules.size() == static_cast<size_t>(ResponderFault::kCount));
static_assert(
    [] {
      for (size_t i = 0; i < kFaultRules.size(); ++i) {
        if (kFaultRules[i].fault != static_cast<ResponderFault>(i)) return false;
      }
      return true;
    }(),
    "the rules stand in the order of the faults");

[[nodiscard]] constexpr const FaultRule& fault_rule(ResponderFault fault) noexcept {
  return kFaultRules[static_cast<size_t>(fault)];
}

}  // namespace weft::adapter
