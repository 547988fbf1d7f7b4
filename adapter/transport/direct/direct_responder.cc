// How it works: a message is executed as its records come, in the order of their numbers. If a message finds
// no receive request, it is answered with an RNR NAK, and all records are dropped until it comes again. Reads
// and atomic operations are answered from a queue, because the FIFO may be full. A refusal waits for the
// answers of earlier reads.
#include "adapter/transport/direct/direct_responder.h"

#include <algorithm>
#include <cstring>

#include "adapter/memory/guarded_copy.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/transport/delivery.h"
#include "adapter/transport/rnr_timer.h"

namespace weft::adapter {
namespace {

[[nodiscard]] Opcode opcode_of(WindowRecordKind kind) noexcept {
  switch (kind) {
    case WindowRecordKind::kWrite:
    case WindowRecordKind::kImmediate:
    case WindowRecordKind::kRefusedWrite:
      return Opcode::kRdmaWrite;
    case WindowRecordKind::kRead:
      return Opcode::kRdmaReadRequest;
    case WindowRecordKind::kCompareSwap:
    case WindowRecordKind::kFetchAdd:
      return Opcode::kFetchOpRequest;
    default:
      return Opcode::kSend;
  }
}

[[nodiscard]] uint8_t flags_of_message(const WindowRecord& record) noexcept {
  return static_cast<uint8_t>(record.flags & ~kRecordLast);
}
/// Each record of a message describes the whole message. Its checks are made with the first record, so a
/// later one must say the same. A requester that hears an RNR NAK twice begins the message again.
[[nodiscard]] bool is_of_message(const DirectQp& direct, const WindowRecord& record) noexcept {
  return record.kind == direct.kind && flags_of_message(record) == direct.flags &&
         record.total == direct.total && record.address == direct.packet.va &&
         Rkey(record.key) == direct.packet.rkey;
}

}  // namespace

uint8_t DirectResponder::grants_of(const QueuePair& qp) const noexcept {
  const auto granted = [&](Opcode opcode) {
    return placement_.check_rights(qp, opcode) == ResponderFault::kNone;
  };
  return static_cast<uint8_t>(kTakesShortSends | (granted(Opcode::kRdmaWrite) ? kGrantWrite : 0) |
                              (granted(Opcode::kRdmaReadRequest) ? kGrantRead : 0));
}

void DirectResponder::take(QueuePair& qp, const WindowRecord& record,
                           std::span<const std::byte> data) noexcept {
  DirectQp& direct = direct_of(qp);
  const bool in_turn = record.number == direct.expected && direct.fault == ResponderFault::kNone;
  const bool goes_on = direct.in_message && record.offset == direct.filled;
  if (!in_turn || (record.offset != 0 && !goes_on)) return;  // behind a message that comes again
  direct.pausing = false;
  if (!take_at_once(qp, record, data)) take_in_steps(qp, record, data);
}

void DirectResponder::take_in_steps(QueuePair& qp, const WindowRecord& record,
                                    std::span<const std::byte> data) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.in_message && !is_of_message(direct, record))
    return refuse(qp, ResponderFault::kViolation, record.total);
  if (record.offset == 0) {
    if (!direct.in_message) describe(direct, record);
    direct.filled = 0;
    direct.packet.revision = 0;
  }
  switch (record.kind) {
    case WindowRecordKind::kRead:
      return take_read(qp, record);
    case WindowRecordKind::kCompareSwap:
    case WindowRecordKind::kFetchAdd:
      return take_atomic(qp, record, data);
    case WindowRecordKind::kRefusedWrite:
      return take_refused(qp, record);
    default:
      return take_data(qp, record, data);
  }
}

/// `record` is the first of a message.
void DirectResponder::describe(DirectQp& direct, const WindowRecord& record) noexcept {
  direct.kind = record.kind;
  direct.flags = flags_of_message(record);
  direct.total = record.total;
  direct.packet = {};
  direct.packet.opcode = opcode_of(record.kind);
  direct.packet.fills_wqe = record.kind == WindowRecordKind::kSend;
  direct.packet.va = record.address;
  direct.packet.rkey = Rkey(record.key);
}

/// A whole Send in one record, into a receive request of one segment. False, and nothing has happened but
/// bytes in its buffer, when that does not do.
[[gnu::always_inline]] inline bool DirectResponder::take_at_once(QueuePair& qp, const WindowRecord& record,
                                                                 std::span<const std::byte> data) noexcept {
  const bool whole = record.kind == WindowRecordKind::kSend && record.offset == 0 &&
                     record.has(kRecordLast) && !record.has(kRecordInvalidates);
  if (!whole || direct_of(qp).in_message || qp.rq->empty()) return false;
  if (record.total > engine_.config.limits.message_bytes_max) return false;
  if (!placement_.receive_at_once(*qp.rq, data, &direct_of(qp).sink)) return false;
  static_cast<void>(engine_.take_recv(qp));
  count_executed(qp, record);
  deliver(engine_, qp,
          {.has_imm = record.has(kRecordImmediate),
           .solicited = record.has(kRecordSolicited),
           .imm = record.immediate,
           .bytes = record.total},
          true);
  return true;
}

/// The checks of a message's first record. kNoRecvWqe: the peer has to send it again.
ResponderFault DirectResponder::begin(QueuePair& qp, const WindowRecord& record) noexcept {
  DirectQp& direct = direct_of(qp);
  RxPacket& packet = direct.packet;
  if (record.total > engine_.config.limits.message_bytes_max) return ResponderFault::kTooLong;
  if (!packet.fills_wqe) {
    ResponderFault fault = placement_.check_rights(qp, packet.opcode);
    if (fault == ResponderFault::kNone && record.kind == WindowRecordKind::kWrite)
      fault = placement_.check_rkey(qp, packet, record.total);
    if (fault != ResponderFault::kNone) return fault;
  }
  const bool with_wqe = packet.fills_wqe || (record.has(kRecordImmediate) && qp.config.idata_takes_recv_wqe);
  if (with_wqe && !packet.has_wqe) {
    if (qp.rq->empty()) return ResponderFault::kNoRecvWqe;
    packet.wqe = engine_.take_recv(qp);
    packet.has_wqe = true;
  }
  return placement_.check_length(qp, packet, record.total);
}

void DirectResponder::take_data(QueuePair& qp, const WindowRecord& record,
                                std::span<const std::byte> data) noexcept {
  DirectQp& direct = direct_of(qp);
  RxPacket& packet = direct.packet;
  ResponderFault fault = ResponderFault::kNone;
  if (record.offset == 0) fault = begin(qp, record);
  if (fault == ResponderFault::kNoRecvWqe) return not_ready(qp);
  direct.in_message = true;
  // A key may end between two records.
  if (fault == ResponderFault::kNone && record.kind == WindowRecordKind::kWrite)
    fault = placement_.check_rkey(qp, packet, record.total);
  if (fault == ResponderFault::kNone && packet.fills_wqe)
    fault = placement_.check_length(qp, packet, record.offset + data.size());
  if (fault == ResponderFault::kNone && !data.empty())
    fault = placement_.copy(qp, packet, record.offset, data);
  if (fault != ResponderFault::kNone) return refuse(qp, fault, record.total);
  direct.filled += data.size();
  const bool last = record.kind == WindowRecordKind::kImmediate || record.has(kRecordLast);
  if (last) finish(qp, record);
}

void DirectResponder::finish(QueuePair& qp, const WindowRecord& record) noexcept {
  DirectQp& direct = direct_of(qp);
  RxPacket& packet = direct.packet;
  packet.invalidates = packet.has_imm = record.has(kRecordInvalidates);
  packet.imm = record.immediate;
  const ResponderFault fault = placement_.finish(qp, packet);
  if (fault != ResponderFault::kNone) return refuse(qp, fault, record.total);
  if (record.kind == WindowRecordKind::kWrite && record.total != 0) keys_.used(qp, packet.rkey);
  const bool has_imm = record.has(kRecordImmediate);
  const Delivery message{.is_send = packet.fills_wqe,
                         .has_imm = has_imm,
                         .invalidated = packet.invalidates,
                         .solicited = record.has(kRecordSolicited),
                         .imm = record.immediate,
                         .bytes = record.total,
                         .va = record.address};
  const bool with_wqe = packet.has_wqe;
  const bool tells = packet.fills_wqe || has_imm;
  executed(qp, record);
  if (tells) deliver(engine_, qp, message, with_wqe);
}

/// The message that was expected is executed.
void DirectResponder::executed(QueuePair& qp, const WindowRecord& record) noexcept {
  DirectQp& direct = direct_of(qp);
  direct.in_message = false;
  direct.filled = 0;
  direct.packet = {};
  count_executed(qp, record);
}

[[gnu::always_inline]] inline void DirectResponder::count_executed(QueuePair& qp,
                                                                   const WindowRecord& record) noexcept {
  ++direct_of(qp).expected;
  if ((qp.watch & kWatchFirstCell) != 0) {
    qp.watch &= static_cast<uint8_t>(~kWatchFirstCell);
    engine_.raise(qp, AsyncEventKind::kCommEstablished);
  }
  engine_.schedule.want_ack(qp, record.has(kRecordAnswer) || qp.rx.debt.count_cell(), engine_.now);
}

void DirectResponder::take_read(QueuePair& qp, const WindowRecord& record) noexcept {
  if (qp.rx.reads.full()) return refuse(qp, ResponderFault::kViolation, record.total);
  ReadJob job{.source_va = record.address,
              .sink_va = record.number,
              .source_key = Rkey(record.key),
              .bytes = record.total,
              .cells = 1};
  const ResponderFault fault = placement_.check_read(qp, job);
  if (fault != ResponderFault::kNone) return refuse(qp, fault, record.total);
  engine_.memory.checks.finish_remote(job.grant);
  if (record.total != 0) keys_.used(qp, job.source_key);
  answer_later(qp, job);
  executed(qp, record);
}

/// The peer's copy of the table has refused the write (NTB-WRITE-01). The checks here tell why.
void DirectResponder::take_refused(QueuePair& qp, const WindowRecord& record) noexcept {
  RxPacket& packet = direct_of(qp).packet;
  ResponderFault fault = placement_.check_rights(qp, Opcode::kRdmaWrite);
  if (fault == ResponderFault::kNone) fault = placement_.check_rkey(qp, packet, record.total);
  if (fault == ResponderFault::kNone) fault = ResponderFault::kRemoteAccess;  // the key has changed since
  refuse(qp, fault, record.total);
}

void DirectResponder::take_atomic(QueuePair& qp, const WindowRecord& record,
                                  std::span<const std::byte> data) noexcept {
  if (qp.rx.reads.full()) return refuse(qp, ResponderFault::kViolation, kFetchOperandBytes);
  RxPacket& packet = direct_of(qp).packet;
  const bool adds = record.kind == WindowRecordKind::kFetchAdd;
  const FetchRequestWire request{
      .address = Be64(record.address),
      .key = Be32(record.key),
      .operation = static_cast<uint8_t>(adds ? FetchOp::kFetchAdd : FetchOp::kCompareSwap),
      .operand_bytes = kFetchOperandBytes,
      .zero = Be16(0),
      .compare = Be64(load_be<uint64_t>(data.data())),
      .operand = Be64(load_be<uint64_t>(data.data() + sizeof(uint64_t)))};
  uint64_t old_value = 0;
  ResponderFault fault = placement_.check_rights(qp, Opcode::kFetchOpRequest);
  if (fault == ResponderFault::kNone) fault = placement_.execute_atomic(qp, request, packet, old_value);
  if (fault != ResponderFault::kNone) return refuse(qp, fault, kFetchOperandBytes);
  engine_.memory.checks.finish_remote(packet.grant);
  answer_later(qp, {.is_atomic = true,
                    .sink_va = record.number,
                    .old_value = old_value,
                    .bytes = kFetchOperandBytes,
                    .cells = 1});
  executed(qp, record);
}

void DirectResponder::answer_later(QueuePair& qp, const ReadJob& job) noexcept {
  qp.answers |= qp.rx.reads.push(job);
  engine_.schedule.want_send(qp);
}

// ---- answers --------------------

bool DirectResponder::pay_debts(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.owes_ready) {
    const WindowRecord ready{.kind = WindowRecordKind::kReady,
                             .flags = direct.asks() ? uint8_t{kRecordAnswer} : uint8_t{0},
                             .code = grants_of(qp)};
    if (!outlet_.send(qp, ready)) return false;
    direct.owes_ready = false;
  }
  if (!send_responses(qp)) return false;
  if (direct.fault != ResponderFault::kNone && qp.rx.reads.empty()) answer_refusal(qp);
  return send_nak(qp) && send_gone(qp);
}

bool DirectResponder::send_nak(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (!direct.owes_nak) return true;
  const WindowRecord nak{.kind = WindowRecordKind::kNak,
                         .code = static_cast<uint8_t>(direct.nak),
                         .timer = direct.nak_timer,
                         .number = direct.expected};
  if (!outlet_.send(qp, nak)) return false;
  direct.owes_nak = false;
  qp.counters.add(QpCounter::kNaksSent);
  return true;
}

/// A record that is no request has not left. What can be sent again is owed again; a response cannot.
void DirectResponder::record_lost(QueuePair& qp, bool response) noexcept {
  DirectQp& direct = direct_of(qp);
  if (response && qp.abilities().receive) {
    engine_.report(qp, {Reason::kWindowFailed});
    enter_error(engine_, qp, AsyncEventKind::kQpFatal, WcStatus::kRetryExceeded);
  }
  const bool ended = !qp.abilities().receive;
  const bool refused = direct.nak != AckCode{} && direct.nak != AckCode::kReceiverNotReady;
  direct.owes_ready = direct.owes_ack = true;
  direct.owes_nak |= ended ? refused : direct.pausing;
  direct.told_gone = false;
  engine_.schedule.want_send(qp);  // it owes them again, also if it has ended before
}

/// A QP that has failed is silent from now on: its peer need not wait for answers.
bool DirectResponder::send_gone(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (qp.abilities().receive || direct.told_gone) return true;
  direct.told_gone = outlet_.send(qp, {.kind = WindowRecordKind::kGone});
  return direct.told_gone;
}

bool DirectResponder::acknowledge(QueuePair& qp) noexcept {
  if (!outlet_.send(qp, {.kind = WindowRecordKind::kAck})) return false;
  qp.counters.add(QpCounter::kAcksSent);
  return true;
}

bool DirectResponder::send_responses(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  while (!qp.rx.reads.empty()) {
    ReadJob& job = qp.rx.reads.front();
    bool failed = false;
    if (!send_response(qp, job, failed)) return false;
    if (failed) return true;
    if (direct.response_at < job.bytes) continue;
    direct.response_at = 0;
    qp.rx.reads.pop();
  }
  qp.answers = false;
  return true;
}

/// Sends the next part of a response. `failed`: the memory is no longer there, and the QP has ended.
bool DirectResponder::send_response(QueuePair& qp, ReadJob& job, bool& failed) noexcept {
  DirectQp& direct = direct_of(qp);
  const std::span<std::byte> room = outlet_.room(qp);
  if (room.data() == nullptr) return false;
  const auto bytes = static_cast<uint32_t>(std::min<size_t>(room.size(), job.bytes - direct.response_at));
  ResponderFault fault = ResponderFault::kNone;
  if (job.is_atomic) {
    store_be(room.data(), job.old_value);
  } else if (bytes != 0) {
    fault = placement_.check_read(qp, job);
    std::byte* to = room.data();
    const auto copy = [&to](std::byte* from, uint64_t part) {
      copy_guarded(to, from, part);
      to += part;
    };
    if (fault == ResponderFault::kNone &&
        engine_.memory.checks.visit_granted(job.grant, direct.response_at, bytes, AccessKind::kRemoteRead,
                                            copy) != AccessFault::kNone)
      fault = ResponderFault::kLocalAccess;
  }
  if (fault != ResponderFault::kNone) {
    failed = true;
    direct.packet.opcode = Opcode::kRdmaReadRequest;
    direct.packet.rkey = job.source_key;
    direct.packet.va = job.source_va;
    direct.expected = static_cast<uint32_t>(job.sink_va);
    qp.rx.reads.clear();
    qp.answers = false;
    refuse(qp, fault, job.bytes);
    return true;
  }
  WindowRecord record{.kind = WindowRecordKind::kResponse,
                      .number = static_cast<uint32_t>(job.sink_va),
                      .total = job.bytes,
                      .offset = direct.response_at};
  if (direct.response_at + bytes == job.bytes) record.flags = kRecordLast;
  outlet_.put(qp, record, room, bytes, kResponsePlace);
  direct.response_at += bytes;
  return true;
}

/// No receive request waits: the peer pauses and sends the message again.
void DirectResponder::not_ready(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.pausing) return;
  direct.pausing = true;
  direct.in_message = false;
  placement_.note_no_receive(qp, work_of(direct.packet.opcode));
  direct.owes_nak = true;
  direct.nak = AckCode::kReceiverNotReady;
  direct.nak_timer = static_cast<uint8_t>(rnr_code(qp.attr.min_rnr_timer));
  qp.counters.add(QpCounter::kRnrNaksSent);
  (void)pay(qp);
}

void DirectResponder::refuse(QueuePair& qp, ResponderFault fault, uint64_t bytes) noexcept {
  DirectQp& direct = direct_of(qp);
  placement_.refuse(qp, direct.packet, fault, bytes);
  direct.fault = fault;
  (void)pay(qp);
}

void DirectResponder::answer_refusal(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  const FaultRule& rule = fault_rule(direct.fault);
  direct.fault = ResponderFault::kNone;
  direct.owes_nak = true;
  direct.nak = rule.nak;
  direct.nak_timer = 0;
  placement_.end_qp(qp, rule, direct.packet.has_wqe);
}

}  // namespace weft::adapter
