// How it works: a packet is made only after the cells of earlier packets have left, so at most one packet of
// a QP waits for credit. `cursor` goes over the packets in flight. A repetition sets bits in a packet's
// `pending` and moves the cursor back, and the same loop sends them. A WQE counts as started when its last
// packet is made. All steps of a message are inlined into run(), because calls made up much of the cost of a
// small message.
#include "adapter/transport/requester.h"

#include <algorithm>
#include <bit>

#include "messages/ipv6_frame.h"

namespace weft::adapter {

bool Requester::has_work(const QueuePair& qp) const noexcept {
  const SendSide& tx = qp.tx;
  if (engine_.now < tx.rnr_until) return false;
  return tx.cursor < tx.end || may_execute(qp);
}

/// The WQE at the head of the queue can be started, or its next packet be made.
[[gnu::always_inline]] inline bool Requester::may_execute(const QueuePair& qp) const noexcept {
  if (!head_.may_run(qp, qp.tx.reads_in_flight != 0)) return false;
  const SendWqe& wqe = qp.sq.at(qp.sq.started);
  return !wqe.started || !wqe.rule->moves_data() || check_window(qp, wqe, next_bytes(qp, wqe));
}

uint32_t Requester::run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  SendSide& tx = qp.tx;
  uint32_t sent = 0;
  uint32_t local = 0;
  if (engine_.now < tx.rnr_until || !engine_.path_ready(qp)) return 0;
  while (sent < budget && !blocked && qp.abilities().finish_send) {
    if (tx.cursor < tx.end) {
      if (tx.at(tx.cursor).pending != 0) sent += send_pending(qp, tx.cursor, budget - sent, blocked);
      if (tx.cursor < tx.end && tx.at(tx.cursor).pending == 0) ++tx.cursor;
      continue;
    }
    const Step step = next_packet(qp);
    if (step == Step::kStop) break;
    if (step == Step::kAgain && ++local == kLocalWqesPerTurn) {
      engine_.schedule.want_send(qp);
      break;
    }
  }
  return sent;
}

void Requester::prepare_packet(QueuePair& qp) noexcept {
  if (engine_.now < qp.tx.rnr_until) return;
  for (uint32_t local = 0; local < kLocalWqesPerTurn; ++local) {
    if (next_packet(qp) != Step::kAgain) return;
  }
  engine_.schedule.want_send(qp);
}

[[gnu::always_inline]] inline uint32_t Requester::send_pending(QueuePair& qp, uint64_t number,
                                                               uint32_t budget, bool& blocked) noexcept {
  TxPacket& packet = qp.tx.at(number);
  const Psn psn = qp.tx.psn_of(number);
  uint32_t sent = 0;
  bool failed = false;
  while (packet.pending != 0 && sent < budget) {
    const auto cell = static_cast<uint32_t>(std::countr_zero(packet.pending));
    const CellSent result = qp.config.raw_ipv6 ? writer_.send_ipv6_frame(qp, packet, psn)
                                               : writer_.send_request_cell(qp, packet, psn, cell);
    if (result == CellSent::kNoCredit) {
      blocked = true;
      qp.counters.add(QpCounter::kCreditStalls);
      break;
    }
    if (result != CellSent::kYes) [[unlikely]] {
      completer_.fail_packet(qp, number, unsendable(qp, packet.wqe, result));
      failed = true;
      break;
    }
    packet.pending &= packet.pending - 1;
    ++sent;
  }
  qp.counters.add(QpCounter::kCellsSent, sent);
  engine_.count_sent(engine_.port_of(qp), sent);
  if (!failed && packet.pending == 0) completer_.packet_sent(qp, number);
  return sent;
}

[[gnu::always_inline]] inline Requester::Step Requester::next_packet(QueuePair& qp) noexcept {
  if (!may_execute(qp)) return Step::kStop;
  SendWqe& wqe = qp.sq.at(qp.sq.started);
  if (!wqe.rule->moves_data()) return head_.run_local(qp, wqe) ? Step::kAgain : Step::kStop;
  if (!wqe.started) {
    if (!start_message(qp, wqe)) return Step::kAgain;
    if (!check_window(qp, wqe, next_bytes(qp, wqe))) return Step::kStop;
  }
  const uint32_t bytes = next_bytes(qp, wqe);
  SendSide& tx = qp.tx;
  if (!tx.packets.open(engine_.tx_chunks, tx.end, tx.first)) [[unlikely]] {
    return find_no_memory(qp, wqe);
  }
  make_packet(qp, wqe, bytes);
  return Step::kPacket;
}

[[gnu::always_inline]] inline bool Requester::start_message(QueuePair& qp, SendWqe& wqe) noexcept {
  wqe.started = true;
  const uint32_t header = qp.config.raw_ipv6 ? kIpv6HeaderBytes : 0;
  const bool too_long = !qp.connected() && wqe.length > qp.path.segment_bytes + header;
  const SendFault fault = too_long ? SendFault{Reason::kDatagramTooLong} : head_.check(qp, wqe);
  if (fault.reason == Reason::kNone) [[likely]]
    return true;
  head_.fail(qp, wqe, fault);
  return false;
}

[[gnu::always_inline]] inline uint32_t Requester::packet_limit(const QueuePair& qp,
                                                               const SendWqe& wqe) const noexcept {
  if (qp.config.raw_ipv6) return wqe.length;  // one cell, whose header takes the first bytes
  const bool read = wqe.rule->is_read();
  return read ? std::min(qp.path.packet_bytes, kReadCellsMax * qp.path.segment_bytes) : qp.path.packet_bytes;
}

/// Size of the next packet of the message.
[[gnu::always_inline]] inline uint32_t Requester::next_bytes(const QueuePair& qp,
                                                             const SendWqe& wqe) const noexcept {
  return std::min(wqe.length - wqe.cut, packet_limit(qp, wqe));
}

[[gnu::always_inline]] inline bool Requester::check_window(const QueuePair& qp, const SendWqe& wqe,
                                                           uint32_t bytes) const noexcept {
  const SendSide& tx = qp.tx;
  if (tx.end - tx.first >= qp.row->send_window) return false;
  if (tx.bytes_in_flight != 0 && tx.bytes_in_flight + bytes > kByteWindow) return false;
  const bool read = wqe.rule->is_read();
  return !read || tx.reads_in_flight < std::min<uint32_t>(qp.attr.max_rd_atomic, kReadsPerQp);
}

[[gnu::always_inline]] inline void Requester::make_packet(QueuePair& qp, SendWqe& wqe,
                                                          uint32_t bytes) noexcept {
  SendSide& tx = qp.tx;
  const SendOpcodeRule& rule = *wqe.rule;
  const bool last = wqe.cut + bytes == wqe.length;
  const bool signaled = qp.config.signal_all || (wqe.flags & kSendSignaled) != 0;
  const uint32_t after = tx.bytes_in_flight + bytes;
  const bool half_window = (tx.bytes_in_flight < kByteWindow / 2 && after >= kByteWindow / 2) ||
                           (tx.end - tx.first) % (kPacketWindow / 2) == kPacketWindow / 2 - 1;
  TxPacket& packet = tx.at(tx.end);
  packet = {};
  packet.wqe = static_cast<uint32_t>(qp.sq.started);
  packet.offset = wqe.cut;
  packet.bytes = bytes;
  packet.opcode = rule.wire;
  packet.cells = static_cast<uint8_t>(qp.config.raw_ipv6 ? 1 : cells_of(bytes, qp.path.segment_bytes));
  packet.is_read = rule.is_read();
  packet.pending = packet.is_read ? 1 : cell_mask(packet.cells);
  packet.last = last;
  packet.has_idata = last && rule.has_imm;
  packet.invalidates = last & (rule.invalidates | ((wqe.flags & kSendInvalidateTarget) != 0));
  packet.ack_wanted = qp.acknowledged() && ((last && signaled) || half_window);
  const bool solicited = last && !packet.is_read && (wqe.flags & kSendSolicited) != 0;
  packet.flags2 = static_cast<uint8_t>((last ? 0 : kCell2More) | (wqe.cut != 0 ? kCell2Continues : 0) |
                                       (solicited ? kCell2Solicited : 0));
  tx.reads_in_flight += packet.is_read ? 1U : 0U;
  tx.bytes_in_flight = after;
  wqe.cut += bytes;
  ++tx.end;
  if (last) ++qp.sq.started;
}

/// The next packet finds no memory. If a supply is on its way, or packets of this QP are in flight, wait;
/// else fail the WQE.
Requester::Step Requester::find_no_memory(QueuePair& qp, SendWqe& wqe) noexcept {
  if (engine_.tx_chunks.awaited()) {
    engine_.schedule.want_send(qp);
    return Step::kStop;
  }
  if (qp.tx.first != qp.tx.end) return Step::kStop;  // as if the window were full
  head_.fail(qp, wqe, {Reason::kNoPacketMemory});
  return Step::kAgain;
}

SendFault Requester::unsendable(QueuePair& qp, uint64_t wqe, CellSent result) noexcept {
  if (result == CellSent::kBadFrame) return {Reason::kNotIpv6};
  return head_.bad_segment(qp, wqe, AccessKind::kLocalRead);
}

}  // namespace weft::adapter
