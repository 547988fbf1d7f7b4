// How it works: cells are expected strictly in order (PSN, then cell number). A cell out of order means that
// something was lost. The message in progress is then abandoned, its receive WQE goes back to the head of the
// queue, and cells are dropped until a packet begins a message. Each packet known to be missing adds one to
// kMissedPackets, which tells a session of the loss (decisions 2.19).
#include "adapter/transport/unreliable/unreliable_responder.h"

#include <cstring>

#include "adapter/several_nics.h"
#include "adapter/transport/delivery.h"
#include "messages/ipv6_frame.h"

namespace weft::adapter {
namespace {

/// Bytes in front of the data in a receive WQE.
uint32_t header_room(const QueuePair& qp) noexcept {
  static_assert(kGrhBytes == kIpv6HeaderBytes);
  return qp.config.grh_space || qp.config.raw_ipv6 ? kGrhBytes : 0;
}

}  // namespace

void UnreliableResponder::abandon(QueuePair& qp, uint64_t packets) noexcept {
  ReceiveSide& rx = qp.rx;
  qp.counters.add(QpCounter::kMissedPackets, packets);
  qp.rq->give_back(qp.taken);
  rx.in_message = false;
  rx.message.give_up();
}

/// Returns true for the next cell in order, and for one at which reception can restart. Advances the order.
bool UnreliableResponder::check_turn(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  const bool in_turn = cell.psn == rx.expected && cell.cell_number == rx.next_cell;
  if (!in_turn) {
    const int32_t distance = cell.psn.distance_from(rx.expected);
    if (distance < 0 || (distance == 0 && cell.cell_number < rx.next_cell)) {
      qp.counters.add(QpCounter::kDuplicateCells);
      return false;
    }
    qp.counters.add(QpCounter::kGapsSeen);
    // The packets in between are missing. So is a packet whose cells have stopped, or that starts in the
    // middle.
    const uint64_t broken =
        distance != 0 && cell.cell_number != 0 ? 1 : (distance == 0 && !rx.message.is_lost() ? 1 : 0);
    abandon(qp, static_cast<uint64_t>(distance) + broken);
  }
  rx.expected = cell.has(kCellLast) ? cell.psn.plus(1) : cell.psn;
  rx.next_cell = cell.has(kCellLast) ? 0 : cell.cell_number + 1U;
  if (!rx.message.is_lost()) return true;
  if (!cell.has(kCellFirst)) return false;
  if ((cell.flags2 & kCell2Continues) != 0) {
    qp.counters.add(QpCounter::kMissedPackets);
    return false;
  }
  rx.message.begin_anew();
  return true;
}

/// Opens a packet with its first cell.
ResponderFault UnreliableResponder::open_packet(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = rx.at(Psn());
  begin_packet(packet, cell);
  describe_packet(packet, cell);
  ResponderFault fault = placement_.check_operation(qp, cell);
  // Data that does not belong to its message is not stored.
  if (fault == ResponderFault::kNone) fault = placement_.check_turn(qp, packet, 0);
  if (fault != ResponderFault::kNone) return fault;
  if (rx.message.goes_on()) {
    packet.offset = static_cast<uint32_t>(rx.message.bytes());
    packet.wqe = rx.base_wqe;
    return ResponderFault::kNone;
  }
  if (!packet.fills_wqe) return ResponderFault::kNone;
  if (qp.rq->empty()) return ResponderFault::kNoRecvWqe;
  rx.base_wqe = packet.wqe = engine_.take_recv(qp);
  return ResponderFault::kNone;
}

/// Takes a further cell of the packet in progress.
ResponderFault UnreliableResponder::continue_packet(QueuePair& qp, const CellView& cell) noexcept {
  RxPacket& packet = qp.rx.at(Psn());
  if (packet.opcode != cell.opcode || packet.flags2 != (cell.flags2 & kCell2OfPacket))
    return ResponderFault::kViolation;
  describe_packet(packet, cell);
  return ResponderFault::kNone;
}

void UnreliableResponder::take_connected(QueuePair& qp, const CellView& cell) noexcept {
  if (!engine_.resumed && !check_turn(qp, cell)) return;
  RxPacket& packet = qp.rx.at(Psn());
  const uint64_t begin = uint64_t{cell.cell_number} * qp.path.segment_bytes;
  ResponderFault fault = cell.has(kCellFirst) ? open_packet(qp, cell) : continue_packet(qp, cell);
  if (fault == ResponderFault::kNone) fault = placement_.place(qp, packet, begin, cell.payload);
  if (qp.config.packet_crc && fault == ResponderFault::kNone)
    Placement::sum_up(qp, packet, cell.cell_number, cell.payload);
  if (fault == ResponderFault::kNone && cell.has(kCellLast)) fault = finish_packet(qp, cell);
  if (fault == ResponderFault::kNone) return;
  if (fault == ResponderFault::kAwaitsKey) {
    if (!engine_.several_nics->questions.wait(qp, cell, packet.rkey.value())) abandon(qp, 1);
    return;
  }
  placement_.refuse(qp, packet, fault, begin + cell.payload.size());
  abandon(qp, 1);
}

ResponderFault UnreliableResponder::finish_packet(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = rx.at(Psn());
  const auto bytes = static_cast<uint32_t>(cell.cell_number * qp.path.segment_bytes + cell.payload.size());
  ResponderFault fault = placement_.check_turn(qp, packet, bytes);
  if (fault == ResponderFault::kNone && packet.has_packet_crc && !placement_.packet_crc_right(qp, packet)) {
    fault = ResponderFault::kPacketCrc;
  }
  if (fault != ResponderFault::kNone) return fault;
  placement_.pass_turn(qp, packet, bytes);
  if (packet.more()) return ResponderFault::kNone;
  fault = placement_.finish(qp, packet);
  if (fault != ResponderFault::kNone) return fault;
  ++rx.messages_completed;
  if (!packet.fills_wqe && !packet.has_imm) return ResponderFault::kNone;
  const bool idata_wqe = !packet.fills_wqe && qp.config.idata_takes_recv_wqe;
  if (idata_wqe) {
    // The data is in memory, but no completion can report it.
    if (qp.rq->empty()) return ResponderFault::kNoRecvWqe;
    (void)engine_.take_recv(qp);
  }
  deliver(engine_, qp,
          {.is_send = packet.fills_wqe,
           .has_imm = packet.has_imm,
           .solicited = (packet.flags2 & kCell2Solicited) != 0,
           .imm = packet.imm,
           .bytes = rx.message.bytes(),
           .va = rx.message.va(),
           .src_lid = cell.slid,
           .src_qpn = cell.src_qpn},
          packet.fills_wqe || idata_wqe);
  return ResponderFault::kNone;
}

/// The global header goes in front of the data, where the verbs reserve room for it. A datagram without
/// global header leaves this room unchanged. A raw frame becomes the original IPv6 packet again.
ResponderFault UnreliableResponder::place_datagram(QueuePair& qp, RxPacket& packet,
                                                   const CellView& cell) noexcept {
  const uint32_t room = header_room(qp);
  if (room == 0) return placement_.place(qp, packet, 0, cell.payload);
  if (qp.config.raw_ipv6 && cell.global_header == nullptr) return ResponderFault::kUnsupported;
  ResponderFault fault = placement_.check_length(qp, packet, room + cell.payload.size());
  if (fault == ResponderFault::kNone && cell.global_header != nullptr) {
    GlobalHeaderWire header;
    std::memcpy(&header, cell.global_header, sizeof header);
    if (qp.config.raw_ipv6) header = ipv6_from_global(header, static_cast<uint32_t>(cell.payload.size()));
    fault = placement_.place(qp, packet, 0, std::as_bytes(std::span(&header, 1)));
  }
  return fault == ResponderFault::kNone ? placement_.place(qp, packet, room, cell.payload) : fault;
}

/// Index of the datagram's partition in the port's table.
uint16_t UnreliableResponder::pkey_index_of(const QueuePair& qp, const CellView& cell) const noexcept {
  if (!is_management(qp.qpn)) return qp.attr.pkey_index;
  const auto table = engine_.ports[qp.port - 1U]->pkeys();
  uint16_t index = 0;
  while (index + 1U < table.size() && !pkeys_match(cell.pkey, table[index])) ++index;
  return index;
}

void UnreliableResponder::take_datagram(QueuePair& qp, const CellView& cell) noexcept {
  ResponderFault fault = placement_.check_operation(qp, cell);
  if (fault == ResponderFault::kNone && qp.rq->empty()) fault = ResponderFault::kNoRecvWqe;
  if (fault == ResponderFault::kNone) {
    RxPacket packet;
    begin_packet(packet, cell);
    packet.wqe = qp.rq->next();
    fault = place_datagram(qp, packet, cell);
  }
  if (fault != ResponderFault::kNone) [[unlikely]]
    return placement_.refuse(qp, cell, fault);
  (void)engine_.take_recv(qp);
  deliver(engine_, qp,
          {.has_imm = cell.has(kCellIdata),
           .solicited = (cell.flags2 & kCell2Solicited) != 0,
           .imm = cell.idata,
           .bytes = cell.payload.size() + header_room(qp),
           .grh = qp.config.grh_space && cell.global_header != nullptr,
           .sl = cell.sl,
           .pkey_index = pkey_index_of(qp, cell),
           .src_lid = cell.slid,
           .src_qpn = cell.src_qpn},
          true);
}

}  // namespace weft::adapter
