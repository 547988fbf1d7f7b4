// The second half of the responder: what concerns whole packets, in PSN order. adapter/transport/responder.cc
// has the story.
#include <algorithm>
#include <bit>
#include <cstring>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/transport/acknowledger.h"
#include "adapter/transport/responder.h"
#include "adapter/transport/responder_faults.h"
#include "adapter/transport/rnr_timer.h"
#include "base/crc32c.h"

namespace weft::adapter {

void deliver(Engine& engine, QueuePair& qp, const Delivery& message, bool with_wqe) noexcept {
  qp.counters.add(QpCounter::kMessagesReceived);
  qp.counters.add(QpCounter::kBytesReceived, message.bytes);
  WorkCompletion entry{.qpn = qp.qpn,
                       .byte_count = static_cast<uint32_t>(message.bytes),
                       .imm = message.imm,
                       .src_lid = message.src_lid,
                       .src_qpn = message.src_qpn};
  entry.flags =
      static_cast<uint8_t>((message.has_imm ? kWcWithImm : 0) | (message.solicited ? kWcSolicited : 0));
  if (message.invalidated) {
    entry.flags |= kWcWithInvalidate;
    entry.invalidated = Rkey(message.imm);
  }
  if (with_wqe) entry.wr_id = qp.rq.at(qp.rq.done++).wr_id;
  if (message.is_send) {
    entry.opcode = WcOpcode::kRecv;
  } else {
    entry.opcode = with_wqe ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRdataIndicate;
    entry.written_va = message.va;
  }
  engine.complete(qp.config.recv_cq, entry);
}

uint32_t Responder::packet_bytes(const QueuePair& qp, const RxPacket& packet) const noexcept {
  return (packet.cells - 1U) * qp.path.segment_bytes + packet.last_bytes;
}

/// Walks over packets whose place in memory or whose use of receive WQEs has become known.
void Responder::resolve_bases(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  rx.blocked = false;
  while (static_cast<uint32_t>(rx.base_psn.distance_from(rx.expected)) < kPacketWindow) {
    const Psn psn = rx.base_psn;
    RxPacket& packet = rx.at(psn);
    if (packet.state == RxState::kFree || packet.state == RxState::kRefused) return;
    if (packet.opcode == Opcode::kSend) {
      if (!packet.has_wqe) {
        if (!assign_send(qp, packet)) return;
        place_stashed(qp, psn, packet);
        if (packet.state == RxState::kRefused) return;
      }
      if (packet.more() && packet.cells == 0) return;  // the next packet's offset is not known
      rx.in_message = packet.more();
      rx.base_offset = packet.offset + (packet.more() ? packet_bytes(qp, packet) : 0);
    } else if (!pass_write(qp, packet)) {
      return;
    }
    rx.base_psn = psn.plus(1);
  }
}

bool Responder::assign_send(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  if (!rx.in_message) {
    if (qp.rq.empty()) {
      rx.blocked = true;
      return false;
    }
    rx.base_wqe = qp.rq.taken++;
    rx.base_offset = 0;
  }
  packet.has_wqe = true;
  packet.wqe = rx.base_wqe;
  packet.offset = rx.base_offset;
  packet.state = RxState::kOpen;
  return true;
}

/// A write with immediate data sets a receive WQE aside, in its turn; without, it is simply passed.
bool Responder::pass_write(QueuePair& qp, RxPacket& packet) noexcept {
  if (packet.opcode != Opcode::kRdmaWrite || !qp.config.idata_takes_recv_wqe || packet.more()) return true;
  if (packet.has_wqe) return true;
  if (!packet.has_imm) return packet.state == RxState::kPlaced;
  if (qp.rq.empty()) {
    qp.rx.blocked = true;
    return false;
  }
  packet.wqe = qp.rq.taken++;
  packet.has_wqe = true;
  return true;
}

void Responder::place_stashed(QueuePair& qp, Psn psn, RxPacket& packet) noexcept {
  while (packet.state == RxState::kOpen) {
    const uint32_t index = engine_.stash.take(qp.rx, psn);
    if (index == 0) return;
    const uint32_t number = engine_.stash.at(index).number;
    const ResponderFault fault = place(qp, packet, number, engine_.stash.payload(index));
    if (fault != ResponderFault::kNone) {
      packet.state = RxState::kRefused;
      packet.fault = fault;
      return;
    }
    mark_placed(qp, psn, packet, number);
  }
}

/// The checks of length and key and the copy, for one cell that waited.
ResponderFault Responder::place(QueuePair& qp, RxPacket& packet, uint32_t number,
                                std::span<const std::byte> data) noexcept {
  const uint64_t begin = uint64_t{number} * qp.path.segment_bytes;
  if (packet.opcode == Opcode::kSend) {
    const RecvWqe& wqe = qp.rq.at(packet.wqe);
    if (packet.offset + begin + data.size() > wqe.bytes) return ResponderFault::kTooLong;
    const AccessFault fault = segmenter_.place_received(qp, packet.wqe, packet.offset + begin, data);
    return fault == AccessFault::kNone ? ResponderFault::kNone : ResponderFault::kLocalAccess;
  }
  RemoteGrant grant;
  const AccessFault fault = engine_.memory.check_remote(qp.config.pd, packet.rkey, packet.va + begin,
                                                        data.size(), AccessKind::kRemoteWrite, grant);
  if (fault != AccessFault::kNone) {
    engine_.faults.add(fault);
    qp.counters.add(QpCounter::kAccessRefused);
    return ResponderFault::kRemoteAccess;
  }
  if (!data.empty()) std::memcpy(grant.at, data.data(), data.size());
  return ResponderFault::kNone;
}

void Responder::complete_in_order(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  while (qp.abilities().receive) {
    RxPacket& packet = rx.at(rx.expected);
    if (packet.state == RxState::kRefused) return answer_refusal(qp, packet);
    if (packet.state != RxState::kPlaced || !finish_packet(qp, packet)) return;
    (void)add_strict_ack(qp, rx.expected, packet.final_cell);
    rx.executed_cell = static_cast<uint8_t>(packet.cells - 1U);
    packet = {};
    rx.expected = rx.expected.plus(1);
    if (rx.highest > 0) --rx.highest;
  }
}

/// Executes the packet at the head. False when it has to wait for a receive WQE or was refused.
bool Responder::finish_packet(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  const bool continues = (packet.flags2 & kCell2Continues) != 0;
  if (continues != rx.completing || (continues && packet.opcode != rx.message_opcode)) {
    qp.counters.add(QpCounter::kProtocolViolations);
    packet.fault = ResponderFault::kViolation;
    answer_refusal(qp, packet);
    return false;
  }
  if (packet.has_packet_crc && !packet_crc_right(qp, packet)) {
    packet.fault = ResponderFault::kPacketCrc;
    answer_refusal(qp, packet);
    return false;
  }
  const bool write = packet.opcode == Opcode::kRdmaWrite;
  const bool last = !packet.more();
  const bool wants_wqe = last && write && packet.has_imm && qp.config.idata_takes_recv_wqe;
  if (wants_wqe && !packet.has_wqe) {
    resolve_bases(qp);
    if (!packet.has_wqe) {
      send_rnr(qp);
      return false;
    }
  }
  if (!rx.completing) {
    rx.message_bytes = 0;
    rx.message_va = packet.va;
    rx.message_opcode = packet.opcode;
  }
  rx.message_bytes += packet.opcode == Opcode::kRdmaReadRequest ? 0 : packet_bytes(qp, packet);
  rx.completing = !last;
  if (!last) return true;
  // A one-shot key serves one operation, however many packets that takes (SAN-RMP-12).
  if (write || packet.opcode == Opcode::kRdmaReadRequest) engine_.memory.finish_remote(packet.grant);
  ++rx.messages_completed;
  const bool invalidates = packet.invalidates && packet.has_imm;
  if (invalidates && engine_.memory.invalidate(qp.config.pd, Rkey(packet.imm)) != AccessFault::kNone) {
    packet.fault = ResponderFault::kRemoteAccess;
    answer_refusal(qp, packet);
    return false;
  }
  if (packet.opcode == Opcode::kSend || packet.has_imm) {
    deliver(engine_, qp,
            {.is_send = packet.opcode == Opcode::kSend,
             .has_imm = packet.has_imm && !invalidates,
             .invalidated = invalidates,
             .solicited = (packet.flags2 & kCell2Solicited) != 0,
             .imm = packet.imm,
             .bytes = rx.message_bytes,
             .va = rx.message_va},
            packet.has_wqe);
  }
  return true;
}

/// PUSH-CELL-08: the sum over VA and key, immediate data and data of all cells in cell order.
bool Responder::packet_crc_right(QueuePair& qp, RxPacket& packet) noexcept {
  uint32_t crc = 0;
  std::array<std::byte, kVaBytes> parts{};
  for (uint32_t i = 0; i < packet.cells; ++i) {
    if (i == 0 && packet.opcode == Opcode::kRdmaWrite) {
      store_be(parts.data(), packet.va);
      store_be(parts.data() + 8, packet.rkey.value());
      crc = crc32c_extend(crc, parts.data(), kVaBytes);
    }
    if ((packet.idata_cells >> i & 1) != 0) {
      store_be(parts.data(), packet.imm);
      crc = crc32c_extend(crc, parts.data(), kIdataBytes);
    }
    const uint64_t begin = uint64_t{i} * qp.path.segment_bytes;
    const uint32_t bytes = i + 1U == packet.cells ? packet.last_bytes : qp.path.segment_bytes;
    if (packet.opcode == Opcode::kSend) {
      crc = segmenter_.hash_scattered(qp.config.pd, {qp.rq.sges(packet.wqe), qp.rq.at(packet.wqe).sge_count},
                                      packet.offset + begin, bytes, crc);
    } else if (bytes != 0) {
      RemoteGrant grant;
      const AccessFault fault = engine_.memory.check_remote(qp.config.pd, packet.rkey, packet.va + begin,
                                                            bytes, AccessKind::kRemoteWrite, grant);
      if (fault == AccessFault::kNone) crc = crc32c_extend(crc, grant.at, bytes);
    }
  }
  return crc == packet.packet_crc;
}

void Responder::answer_refusal(QueuePair& qp, RxPacket& packet) noexcept {
  ReceiveSide& rx = qp.rx;
  const FaultRule& rule = fault_rule(packet.fault);
  const Psn psn = rx.expected;
  if (!rule.ends_qp) {  // the packet comes again as if for the first time
    packet.seen = packet.placed = 0;
    packet.final_cell = kNoCell;
    packet.state = RxState::kOpen;
    packet.dirty = false;
  } else {
    if (rule.ends_recv_wqe && packet.has_wqe && qp.rq.done < qp.rq.taken) {
      engine_.complete(qp.config.recv_cq, {.wr_id = qp.rq.at(qp.rq.done++).wr_id,
                                           .status = rule.recv_status,
                                           .opcode = WcOpcode::kRecv,
                                           .qpn = qp.qpn});
    }
    enter_error(engine_, qp, rule.event, WcStatus::kGeneral);
  }
  set_nak(qp, rule.nak, psn, 0);
  engine_.want_ack(qp, true);
}

void Responder::send_rnr(QueuePair& qp) noexcept {
  set_nak(qp, AckCode::kReceiverNotReady, qp.rx.expected, rnr_code(qp.attr.min_rnr_timer));
  qp.rx.blocked = true;
  engine_.want_ack(qp, true);
}

void Responder::receive_posted(QueuePair& qp) noexcept {
  ReceiveSide& rx = qp.rx;
  if (!rx.blocked || !qp.abilities().receive) return;
  resolve_bases(qp);
  const Psn before = rx.expected;
  complete_in_order(qp);
  if (rx.expected != before) engine_.want_ack(qp, true);
}

}  // namespace weft::adapter
