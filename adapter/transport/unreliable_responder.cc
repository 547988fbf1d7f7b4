// How it works: cells are expected strictly in turn (PSN, then cell number). A cell out of turn means that
// something was lost: the message under way is given up, its receive WQE goes back to the head of the queue,
// and cells are dropped until a packet begins that does not continue a message. Each packet that is known to
// be missing adds one to kMissedPackets, by which a session notices (decisions 2.19).
#include "adapter/transport/unreliable_responder.h"

#include <cstring>

namespace weft::adapter {

void UnreliableResponder::abandon(QueuePair& qp, uint64_t packets) noexcept {
  ReceiveSide& rx = qp.rx;
  qp.counters.add(QpCounter::kMissedPackets, packets);
  qp.rq.taken = qp.rq.done;
  rx.in_message = rx.completing = false;
  rx.uc_skipping = true;
}

/// Is this the cell that comes next, or one to begin again with? Moves the turn on.
bool UnreliableResponder::check_turn(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  const bool in_turn = cell.psn == rx.expected && cell.cell_number == rx.uc_cell;
  if (!in_turn) {
    const int32_t distance = cell.psn.distance_from(rx.expected);
    if (distance < 0 || (distance == 0 && cell.cell_number < rx.uc_cell)) {
      qp.counters.add(QpCounter::kDuplicateCells);
      return false;
    }
    qp.counters.add(QpCounter::kGapsSeen);
    // Packets between are missing; so is the one whose cells have just stopped or begin in the middle.
    const uint64_t broken =
        distance != 0 && cell.cell_number != 0 ? 1 : (distance == 0 && !rx.uc_skipping ? 1 : 0);
    abandon(qp, static_cast<uint64_t>(distance) + broken);
  }
  rx.expected = cell.has(kCellLast) ? cell.psn.plus(1) : cell.psn;
  rx.uc_cell = cell.has(kCellLast) ? 0 : cell.cell_number + 1U;
  if (!rx.uc_skipping) return true;
  if (!cell.has(kCellFirst)) return false;
  if ((cell.flags2 & kCell2Continues) != 0) {
    qp.counters.add(QpCounter::kMissedPackets);
    return false;
  }
  rx.uc_skipping = false;
  return true;
}

bool UnreliableResponder::check_operation(QueuePair& qp, const CellView& cell) noexcept {
  const bool write = cell.opcode == Opcode::kRdmaWrite;
  if (!write && cell.opcode != Opcode::kSend) {
    engine_.count(AdapterCounter::kDropService);
    return false;
  }
  if (write && (!has(qp.attr.access, Access::kRemoteWrite) || !engine_.config.limits.inbound_rdma)) {
    engine_.count(AdapterCounter::kDropAccess);
    return false;
  }
  return true;
}

/// First cell of a packet.
bool UnreliableResponder::open_message(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = rx.packets[0];
  const bool continues = (cell.flags2 & kCell2Continues) != 0;
  if (continues != rx.completing || (continues && cell.opcode != rx.message_opcode)) {
    qp.counters.add(QpCounter::kProtocolViolations);
    return false;
  }
  if (!check_operation(qp, cell)) return false;
  packet = {};
  packet.opcode = cell.opcode;
  packet.flags2 = cell.flags2;
  packet.va = cell.va;
  packet.rkey = cell.rkey;
  if (continues) {
    packet.offset = static_cast<uint32_t>(rx.message_bytes);
    packet.wqe = rx.base_wqe;
    return true;
  }
  rx.message_bytes = 0;
  rx.message_va = cell.va;
  rx.message_opcode = cell.opcode;
  if (cell.opcode != Opcode::kSend) return true;
  if (qp.rq.empty()) {
    engine_.count(AdapterCounter::kDropNoRecvWqe);
    return false;
  }
  rx.base_wqe = packet.wqe = qp.rq.taken++;
  return true;
}

bool UnreliableResponder::place(QueuePair& qp, const CellView& cell) noexcept {
  RxPacket& packet = qp.rx.packets[0];
  const uint64_t begin = uint64_t{cell.cell_number} * qp.path.segment_bytes;
  if (packet.opcode == Opcode::kSend) {
    const RecvWqe& wqe = qp.rq.at(packet.wqe);
    if (packet.offset + begin + cell.payload.size() > wqe.bytes) {
      engine_.count(AdapterCounter::kDropLength);
      return false;
    }
    return segmenter_.place_received(qp, packet.wqe, packet.offset + begin, cell.payload) ==
           AccessFault::kNone;
  }
  const AccessFault fault =
      engine_.memory.check_remote(qp.config.pd, packet.rkey, packet.va + begin, cell.payload.size(),
                                  AccessKind::kRemoteWrite, packet.grant);
  if (fault != AccessFault::kNone) {
    engine_.faults.add(fault);
    engine_.count(AdapterCounter::kDropAccess);
    qp.counters.add(QpCounter::kAccessRefused);
    return false;
  }
  if (!cell.payload.empty()) std::memcpy(packet.grant.at, cell.payload.data(), cell.payload.size());
  return true;
}

void UnreliableResponder::take_connected(QueuePair& qp, const CellView& cell) noexcept {
  if (!check_turn(qp, cell)) return;
  RxPacket& packet = qp.rx.packets[0];
  const bool fits = cell.has(kCellFirst) ? open_message(qp, cell)
                                         : packet.opcode == cell.opcode && packet.flags2 == cell.flags2;
  if (!fits || !place(qp, cell)) return abandon(qp, 1);
  if (cell.has(kCellIdata)) {
    packet.has_imm = true;
    packet.imm = cell.idata;
  }
  if (cell.has(kCellLast)) finish_packet(qp, cell);
}

void UnreliableResponder::finish_packet(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = rx.packets[0];
  rx.message_bytes += cell.cell_number * qp.path.segment_bytes + cell.payload.size();
  rx.completing = packet.more();
  if (packet.opcode == Opcode::kRdmaWrite) engine_.memory.finish_remote(packet.grant);
  if (packet.more()) return;
  ++rx.messages_completed;
  const bool is_send = packet.opcode == Opcode::kSend;
  if (!is_send && !packet.has_imm) return;
  const bool with_wqe = is_send || qp.config.idata_takes_recv_wqe;
  if (!is_send && with_wqe) {
    if (qp.rq.empty()) {  // the data lies in memory, but nobody can be told
      engine_.count(AdapterCounter::kDropNoRecvWqe);
      qp.counters.add(QpCounter::kMissedPackets);
      return;
    }
    ++qp.rq.taken;
  }
  deliver(engine_, qp,
          {.is_send = is_send,
           .has_imm = packet.has_imm,
           .solicited = (packet.flags2 & kCell2Solicited) != 0,
           .imm = packet.imm,
           .bytes = rx.message_bytes,
           .va = rx.message_va,
           .src_lid = cell.slid,
           .src_qpn = cell.src_qpn},
          with_wqe);
}

void UnreliableResponder::take_datagram(QueuePair& qp, const CellView& cell) noexcept {
  const bool raw = qp.config.type == QpType::kRaw;
  if (cell.opcode != (raw ? Opcode::kRaw : Opcode::kUdSend))
    return engine_.count(AdapterCounter::kDropService);
  if (!raw && cell.qkey != qp.attr.qkey) return engine_.count(AdapterCounter::kDropQkey);
  if (qp.rq.empty()) return engine_.count(AdapterCounter::kDropNoRecvWqe);
  const uint64_t position = qp.rq.taken;
  const RecvWqe& wqe = qp.rq.at(position);
  if (cell.payload.size() > wqe.bytes) return engine_.count(AdapterCounter::kDropLength);
  if (segmenter_.place_received(qp, position, 0, cell.payload) != AccessFault::kNone) {
    return engine_.count(AdapterCounter::kDropAccess);
  }
  ++qp.rq.taken;
  deliver(engine_, qp,
          {.has_imm = cell.has(kCellIdata),
           .solicited = (cell.flags2 & kCell2Solicited) != 0,
           .imm = cell.idata,
           .bytes = cell.payload.size(),
           .src_lid = cell.slid,
           .src_qpn = cell.src_qpn},
          true);
}

}  // namespace weft::adapter
