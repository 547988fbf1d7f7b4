#include "adapter/transport/reliable/acknowledger.h"

#include <array>
#include <bit>

#include "adapter/transport/completer.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

Outlet outlet_of(const QueuePair& qp) noexcept {
  return {qp.path.carrier, qp.path.fixed, qp.path.vl, qp.path.global_header(), qp.path.flags2};
}

}  // namespace

void set_nak(QueuePair& qp, AckCode code, Psn psn, uint16_t cell) noexcept {
  AckDebt& debt = qp.rx.debt;
  if (debt.has_nak() && !nak_rule(debt.nak()).repeats) return;
  debt.set_nak(code, psn, cell);
}

bool strict_acks_full(const QueuePair& qp) noexcept {
  return qp.config.ack_mode == AckMode::kStrict && qp.rx.strict_acks.full();
}

bool add_strict_ack(QueuePair& qp, Psn psn, uint16_t cell) noexcept {
  return qp.config.ack_mode != AckMode::kStrict || qp.rx.strict_acks.push({psn, cell});
}

uint32_t Acknowledger::run(QueuePair& qp, bool& done) noexcept {
  ReceiveSide& rx = qp.rx;
  AckDebt& debt = rx.debt;
  done = false;
  const bool strict = qp.config.ack_mode == AckMode::kStrict;
  // A receive WQE was posted before the NAK could leave, so the NAK is void.
  if (debt.nak() == AckCode::kReceiverNotReady && debt.nak_psn() != rx.expected) debt.drop_nak();
  if (!due(qp) || !engine_.path_ready(qp)) return 0;
  uint32_t sent = 0;
  if (debt.has_nak()) {
    if (!send_nak(qp)) return 0;
    sent = 1;
    debt.nak_sent(strict);  // a NAK acknowledges everything before its PSN
  }
  if (qp.abilities().receive) {
    sent += strict ? send_strict(qp, done) : (debt.due() ? send_selective(qp, done) : 0);
    done = done || !debt.due();
  } else {
    done = true;  // a QP in the error state sends its NAK and nothing more
  }
  if (done) {
    if (rx.highest == 0) rx.packets.rest(engine_.rx_chunks);  // every packet is executed and reported
    debt.settle();
  }
  engine_.count_sent(engine_.port_of(qp), sent);
  return sent;
}

bool Acknowledger::send_nak(QueuePair& qp) noexcept {
  AckDebt& debt = qp.rx.debt;
  const AckBody body{.psn = debt.nak_psn(),
                     .cell_number = debt.nak_cell(),
                     .code = debt.nak(),
                     .messages_completed = qp.rx.messages_completed};
  if (writer_.send_ack(outlet_of(qp), body, {}) != CellSent::kYes) return false;
  qp.counters.add(debt.nak() == AckCode::kReceiverNotReady ? QpCounter::kRnrNaksSent : QpCounter::kNaksSent);
  debt.drop_nak();
  return true;
}

uint32_t Acknowledger::send_strict(QueuePair& qp, bool& done) noexcept {
  ReceiveSide& rx = qp.rx;
  uint32_t sent = 0;
  for (; !rx.strict_acks.empty() && sent < kCellsPerQpTurn; ++sent) {
    const StrictAck ack = rx.strict_acks.front();
    const AckBody body{
        .psn = ack.psn(), .cell_number = ack.cell(), .messages_completed = rx.messages_completed};
    if (writer_.send_ack(outlet_of(qp), body, {}) != CellSent::kYes) break;
    rx.strict_acks.pop();
  }
  qp.counters.add(QpCounter::kAcksSent, sent);
  done = rx.strict_acks.empty();
  return sent;
}

/// The newest cell up to which everything has arrived. It includes the last cell of a packet only if the
/// packet was executed.
AckBody Acknowledger::cumulative(QueuePair& qp) const noexcept {
  ReceiveSide& rx = qp.rx;
  const RxPacket* head = rx.find(rx.expected);
  AckBody body{.psn = rx.expected.plus(Psn::kMask), .cell_number = rx.executed_cell};
  body.messages_completed = rx.messages_completed;
  if (head == nullptr || head->state == RxState::kFree || head->state == RxState::kRefused) return body;
  auto cells = static_cast<uint32_t>(std::countr_one(head->seen));
  if (cells != 0 && cells == head->cells) --cells;
  if (cells == 0) return body;
  body.psn = rx.expected;
  body.cell_number = static_cast<uint16_t>(cells - 1);
  return body;
}

uint32_t Acknowledger::send_selective(QueuePair& qp, bool& done) noexcept {
  ReceiveSide& rx = qp.rx;
  uint64_t next = 0;
  for (uint32_t sent = 0; sent < kAcksPerTurn; ++sent) {
    std::array<std::byte, kSelectiveBlocksMax * sizeof(SelectiveBlockWire)> blocks{};
    const uint64_t first = next;
    const size_t bytes = fill_blocks(qp, next, blocks);
    if (sent > 0 && bytes == 0) {
      done = true;
      return sent;
    }
    if (writer_.send_ack(outlet_of(qp), cumulative(qp), {blocks.data(), bytes}) != CellSent::kYes)
      return sent;
    qp.counters.add(QpCounter::kAcksSent);
    for (uint64_t n = first; n < next && (n = rx.order->untold.next(rx.expected, n, next)) < next; ++n) {
      rx.order->untold.clear(rx.expected.plus(static_cast<uint32_t>(n)));
    }
    if (next >= rx.highest) {
      done = true;
      return sent + 1;
    }
  }
  return kAcksPerTurn;
}

/// Fills blocks for packets with news, from distance `next` on, while there is room. Returns the bytes used.
size_t Acknowledger::fill_blocks(QueuePair& qp, uint64_t& next, std::span<std::byte> blocks) noexcept {
  ReceiveSide& rx = qp.rx;
  size_t bytes = 0;
  for (; bytes < blocks.size() && next < rx.highest; ++next) {
    next = rx.order->untold.next(rx.expected, next, rx.highest);
    if (next >= rx.highest) break;
    const Psn psn = rx.expected.plus(static_cast<uint32_t>(next));
    const RxPacket& packet = rx.at(psn);
    const bool in_turn = next == 0 && (packet.seen & (packet.seen + 1)) == 0;
    if (packet.seen == 0 || in_turn || packet.state == RxState::kRefused) continue;
    std::byte* at = &blocks[bytes];
    store_be(at, psn.value());
    store_be(at + 4, uint32_t{0});
    store_be(at + 8, packet.seen);
    bytes += sizeof(SelectiveBlockWire);
  }
  return bytes;
}

}  // namespace weft::adapter
