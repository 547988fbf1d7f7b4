// The second half of the responder: whole packets, in PSN order. adapter/transport/reliable/responder.cc
// explains how it works.
#include <algorithm>
#include <bit>
#include <cstring>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/delivery.h"
#include "adapter/transport/reliable/acknowledger.h"
#include "adapter/transport/reliable/responder.h"
#include "adapter/transport/responder_faults.h"
#include "adapter/transport/rnr_timer.h"
#include "base/crc32c.h"

namespace weft::adapter {

uint32_t Responder::packet_bytes(const QueuePair& qp, const RxPacket& packet) const noexcept {
  return (packet.cells - 1U) * qp.path.segment_bytes + packet.last_bytes;
}

/// Frees window memory that was taken for a cell of which nothing is kept.
void Responder::give_back_memory(QueuePair& qp, Psn psn) noexcept {
  ReceiveSide& rx = qp.rx;
  if (rx.highest == 0) return rx.packets.rest(engine_.rx_chunks);
  const int32_t distance = psn.distance_from(rx.expected);
  if (distance < 0 || static_cast<uint64_t>(distance) < rx.highest) return;
  const Psn newest = rx.expected.plus(static_cast<uint32_t>(rx.highest - 1));
  rx.packets.drop_tail(engine_.rx_chunks, psn.value(), rx.expected.value(), newest.value());
}

/// The NIC does not know the key. The cell is kept elsewhere, and here it has not come (KeyQuestions).
Responder::Step Responder::wait_for_key(Arrival& arrival, Rkey key) noexcept {
  if (arrival.packet.seen == 0) undo_open(arrival);
  (void)engine_.several_nics->questions.wait(arrival.qp, arrival.cell, key.value());
  return Step::kDone;
}

/// Goes over the packets whose place in memory or receive WQE has become known.
void Responder::resolve_bases(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  rx.blocked = false;
  while (static_cast<uint32_t>(rx.base_psn.distance_from(rx.expected)) < kPacketWindow) {
    const Psn psn = rx.base_psn;
    RxPacket* found = rx.find(psn);
    if (found == nullptr) return;
    RxPacket& packet = *found;
    if (packet.state == RxState::kFree || packet.state == RxState::kRefused) return;
    if (packet.fills_wqe) {
      if (!packet.has_wqe) {
        if (!assign_send(qp, packet)) return;
        place_stashed(qp, psn, packet);
        if (packet.state == RxState::kRefused) return;
      }
      if (packet.more() && packet.cells == 0) return;  // the next packet's offset is not known yet
      rx.in_message = packet.more();
      rx.base_offset = packet.offset + (packet.more() ? packet_bytes(qp, packet) : 0);
    } else if (!pass_write(qp, packet)) {
      return;
    }
    rx.base_psn = psn.plus(1);
  }
}

/// A message to an XRC target names its shared receive queue. All messages in progress use the same queue; a
/// message for another queue waits until they have completed.
bool Responder::select_queue(QueuePair& qp, RxPacket& packet) noexcept {
  if (!qp.row->serves_domain) [[likely]]
    return true;
  SharedReceiveQueue* srq = engine_.srqs.find(qp, packet.srq);
  if (srq == nullptr) {  // it was destroyed after the first cell came
    placement_.refuse(qp, packet, ResponderFault::kWrongSrq, 0);
    packet.state = RxState::kRefused;
    packet.fault = ResponderFault::kWrongSrq;
    return false;
  }
  if (srq == qp.srq) return true;
  if (!qp.taken.empty()) return false;
  select_srq(qp, srq);
  return true;
}

/// No WQE waits in the queue that the packet's message takes from.
bool Responder::queue_dry(const QueuePair& qp, const RxPacket& packet) const noexcept {
  if (!qp.row->serves_domain) [[likely]]
    return qp.rq->empty();
  const SharedReceiveQueue* srq = engine_.srqs.find(qp, packet.srq);
  return srq == nullptr || srq->queue.empty();
}

bool Responder::assign_send(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  if (!rx.in_message) {
    if (!select_queue(qp, packet)) return false;
    if (qp.rq->empty()) {
      rx.blocked = true;
      return false;
    }
    rx.base_wqe = engine_.take_recv(qp);
    rx.base_offset = 0;
  }
  packet.has_wqe = true;
  packet.wqe = rx.base_wqe;
  packet.offset = rx.base_offset;
  packet.state = RxState::kOpen;
  return true;
}

/// Passes a write. A write with immediate data reserves a receive WQE in its turn.
bool Responder::pass_write(QueuePair& qp, RxPacket& packet) noexcept {
  const bool writes = (opcode_properties(static_cast<uint8_t>(packet.opcode)) & kOpWritesMemory) != 0;
  if (!writes || !qp.config.idata_takes_recv_wqe || packet.more()) return true;
  if (packet.has_wqe) return true;
  if (!packet.has_imm) return packet.state == RxState::kPlaced;
  if (!select_queue(qp, packet)) return false;
  if (qp.rq->empty()) {
    qp.rx.blocked = true;
    return false;
  }
  packet.wqe = engine_.take_recv(qp);
  packet.has_wqe = true;
  return true;
}

void Responder::place_stashed(QueuePair& qp, Psn psn, RxPacket& packet) noexcept {
  while (packet.state == RxState::kOpen) {
    const uint32_t index = engine_.stash.take(qp.rx, psn);
    if (index == 0) return;
    const uint32_t number = engine_.stash.at(index).number;
    const std::span<const std::byte> data = engine_.stash.payload(index);
    const uint64_t end = uint64_t{number} * qp.path.segment_bytes + data.size();
    ResponderFault fault = placement_.check_place(qp, packet, end);
    if (fault == ResponderFault::kNone) fault = put(qp, psn, packet, number, data);
    if (fault != ResponderFault::kNone) {
      placement_.refuse(qp, packet, fault, end);
      packet.state = RxState::kRefused;
      packet.fault = fault;
      return;
    }
    mark_placed(qp, psn, packet, number);
  }
}

/// Opens a packet with a one-shot key that came out of order, now that it is the expected one.
void Responder::open_in_turn(QueuePair& qp, RxPacket& packet) noexcept {
  const Psn psn = qp.rx.expected;
  packet.waits_turn = false;
  if (packet.state != RxState::kWaiting) return;
  packet.state = RxState::kOpen;
  place_stashed(qp, psn, packet);
  if (psn == qp.rx.base_psn) resolve_bases(qp);
}

void Responder::complete_in_order(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  while (qp.abilities().receive) {
    RxPacket* found = rx.find(rx.expected);
    if (found == nullptr) return;
    RxPacket& packet = *found;
    if (packet.waits_turn) [[unlikely]]
      open_in_turn(qp, packet);
    if (packet.state == RxState::kRefused) return answer_refusal(qp, packet);
    if (packet.state != RxState::kPlaced || !finish_packet(qp, packet)) return;
    (void)add_strict_ack(qp, rx.expected, static_cast<uint16_t>(packet.behind_final - 1U));
    rx.executed_cell = static_cast<uint8_t>(packet.cells - 1U);
    packet = {};
    if (rx.untold) [[unlikely]]
      rx.order->untold.clear(rx.expected);
    rx.expected = rx.expected.plus(1);
    rx.moved_on();
    if (rx.highest > 0) --rx.highest;
    rx.untold = rx.untold && rx.highest != 0;
    rx.packets.pass(engine_.rx_chunks, rx.expected.value(), rx.highest);
    // A message that waited for another shared receive queue can go on now.
    if (qp.row->serves_domain && qp.taken.empty()) resolve_bases(qp);
  }
}

/// Executes the packet at the head. Returns false when it must wait for a receive WQE, or was refused.
bool Responder::finish_packet(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  const uint32_t bytes = packet_bytes(qp, packet);
  ResponderFault fault = placement_.check_turn(qp, packet, bytes);
  if (fault == ResponderFault::kNone && packet.has_packet_crc && !placement_.packet_crc_right(qp, packet)) {
    fault = ResponderFault::kPacketCrc;
  }
  if (fault != ResponderFault::kNone) return refuse_in_turn(qp, packet, fault);
  const bool idata_wqe =
      !packet.more() && !packet.fills_wqe && packet.has_imm && qp.config.idata_takes_recv_wqe;
  if (idata_wqe && !packet.has_wqe) {
    resolve_bases(qp);
    if (!packet.has_wqe) {
      send_rnr(qp);
      return false;
    }
  }
  placement_.pass_turn(qp, packet, bytes);
  if (is_read_request(packet.opcode) && !is_atomic_request(packet.opcode))
    remember_executed(rx, {rx.expected, packet.rkey, packet.va, bytes});
  return packet.more() || finish_message(qp, packet);
}

bool Responder::finish_message(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  const ResponderFault fault = placement_.finish(qp, packet);
  if (fault != ResponderFault::kNone) return refuse_in_turn(qp, packet, fault);
  ++rx.messages_completed;
  if (!packet.fills_wqe && !packet.has_imm) return true;
  const bool invalidates = packet.invalidates && packet.has_imm && packet.fills_wqe;
  deliver(engine_, qp,
          {.is_send = packet.fills_wqe,
           .has_imm = packet.has_imm && !invalidates,
           .invalidated = invalidates,
           .solicited = (packet.flags2 & kCell2Solicited) != 0,
           .imm = packet.imm,
           .bytes = rx.message.bytes(),
           .va = rx.message.va()},
          packet.has_wqe);
  return true;
}

bool Responder::refuse_in_turn(QueuePair& qp, RxPacket& packet, ResponderFault fault) noexcept {
  placement_.refuse(qp, packet, fault, packet_bytes(qp, packet));
  packet.state = RxState::kRefused;
  packet.fault = fault;
  answer_refusal(qp, packet);
  return false;
}

void Responder::answer_refusal(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  const FaultRule& rule = fault_rule(packet.fault);
  const Psn psn = rx.expected;
  // Answers keep the order of the requests: first answer the reads that were executed before.
  if (rule.ends_qp && !rx.reads.empty()) return;
  if (!rule.ends_qp) {  // the packet is received again from its first cell
    packet.seen = packet.placed = 0;
    packet.behind_final = 0;
    packet.body_sum = 0;
    packet.state = RxState::kOpen;
    rx.order->untold.clear(psn);
  } else {
    placement_.end_qp(qp, rule, packet.has_wqe);
  }
  set_nak(qp, rule.nak, psn, 0);
  engine_.schedule.want_ack(qp, true, engine_.now);
}

/// A refused request waits until the earlier reads are answered; now they are.
void Responder::answer_after_reads(QueuePair& qp) noexcept {
  const RxPacket* head = qp.rx.find(qp.rx.expected);
  if (head != nullptr && head->state == RxState::kRefused) complete_in_order(qp);
}

void Responder::send_rnr(QueuePair& qp) noexcept {
  const RxPacket* head = qp.rx.find(qp.rx.expected);  // a Send, or a write with immediate data
  const bool known = head != nullptr && head->state != RxState::kFree;
  placement_.note_no_receive(qp, known ? work_of(head->opcode) : FailedWork::kSend);
  set_nak(qp, AckCode::kReceiverNotReady, qp.rx.expected, rnr_code(qp.attr.min_rnr_timer));
  qp.rx.blocked = true;
  engine_.schedule.want_ack(qp, true, engine_.now);
}

void Responder::receive_posted(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  if (!rx.blocked || !qp.abilities().receive) return;
  resolve_bases(qp);
  const Psn before = rx.expected;
  complete_in_order(qp);
  if (rx.expected != before) engine_.schedule.want_ack(qp, true, engine_.now);
}

/// Reports a peer that repeats an older packet although nothing was executed since RTR.
void Responder::note_other_psn(QueuePair& qp, const CellView& cell) noexcept {
  if (qp.rx.expected != qp.attr.rq_psn) [[likely]]
    return;
  engine_.report_stray(Reason::kWrongPsn, cell, qp.rx.expected.value(), cell.psn.value());
}

/// The memory of a read is no longer mapped. A repeated request may be an old copy that came after the
/// program freed the buffer: it is dropped, and the result is true. Otherwise the requester gets a NAK, the
/// QP goes to ERR, and the result is false.
bool Responder::drop_read(QueuePair& qp, const ReadJob& job) noexcept {
  if (job.repeated) {
    placement_.count(qp, ResponderFault::kLocalAccess);
    qp.rx.reads.pop();
    return true;
  }
  RxPacket asked;
  asked.opcode = Opcode::kRdmaReadRequest;
  asked.rkey = job.source_key;
  asked.va = job.source_va;
  placement_.refuse_gone(qp, asked, job.bytes);
  const FaultRule& rule = fault_rule(ResponderFault::kLocalAccess);
  placement_.end_qp(qp, rule, false);
  set_nak(qp, rule.nak, job.psn, 0);
  engine_.schedule.want_ack(qp, true, engine_.now);
  return false;
}

}  // namespace weft::adapter
