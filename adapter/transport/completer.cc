// How it works: an ACK names the newest cell up to which everything has arrived (cumulative), followed by up
// to three blocks of cells that arrived out of order. Only the cumulative part retires packets and completes
// WQEs; the blocks tell which cells need no repetition. A missing cell that is older than an acknowledged
// cell is repeated at once, but not twice within a round trip. The retransmission timer repeats the cells of
// which no ACK tells. Its period follows the measured round trip and doubles with each expiry. Each full
// ack_timeout without progress counts as one retry. The oldest packet is repeated after such a period also
// while others are acknowledged: the response of a read may be lost among the ACKs of later writes. In strict
// mode an ACK acknowledges the one cell that it names (C-14).
#include "adapter/transport/completer.h"

#include <algorithm>
#include <array>
#include <bit>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/path_migration.h"
#include "adapter/transport/rnr_timer.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

constexpr std::array kNakRules{
    NakRule{AckCode::kAck, true, Reason::kNone},
    NakRule{AckCode::kSequenceError, true, Reason::kPeerOtherPsn},
    NakRule{AckCode::kReceiverNotReady, true, Reason::kPeerHasNoReceive},
    NakRule{AckCode::kRemoteAccess, false, Reason::kPeerRefusesAccess},
    NakRule{AckCode::kNotSupported, false, Reason::kPeerRefusesRequest},
    NakRule{AckCode::kRemoteOperation, false, Reason::kPeerHasNoMemory},
    NakRule{AckCode::kPacketCrc, true, Reason::kPeerCrc},
    NakRule{AckCode::kStandsStill, true, Reason::kPeerWentSilent},
};
static_assert(kNakRules.size() == static_cast<size_t>(AckCode::kCount));

/// Until the first round trip is measured: the loss of a first message must not cost a whole ack_timeout.
constexpr Duration kTimeoutRttUnknown = 20ms;
/// Bytes around the payload of a raw frame; they count for its rate.
constexpr uint32_t kCellOverheadBytes = kCellHeaderBytes + kCrcBytes;
/// The repeats of an oldest packet beside which others are acknowledged double their distance so often.
constexpr uint8_t kHeadRepeatsMax = 5;
/// Retransmission period of a QP with ack_timeout 0, which never gives up.
constexpr Duration kTimeoutWhenEndless = 20ms;

/// Upper limit of the back-off. A QP without retries waits the whole ack_timeout. Others repeat several times
/// within one, so that heavy loss does not look like a silent peer.
Duration longest_timeout(const QueuePair& qp) noexcept {
  const Duration whole = qp.attr.ack_timeout > Duration::zero() ? qp.attr.ack_timeout : kTimeoutWhenEndless;
  return qp.attr.retry_count == 0 ? whole
                                  : std::max(whole / kRepeatsPerAckTimeout, std::min(whole, kRetransmitMin));
}

/// Retransmission timeout without back-off.
Duration base_timeout(const QueuePair& qp) noexcept {
  const Duration longest = longest_timeout(qp);
  if (qp.attr.retry_count == 0) return longest;
  if (!qp.tx.rtt_known) return std::min(longest, kTimeoutRttUnknown);
  return std::min(std::max(qp.tx.rtt + 4 * qp.tx.rtt_spread, kRetransmitMin), longest);
}

Duration repair_interval(const SendSide& tx) noexcept {
  return std::max(tx.rtt + 4 * tx.rtt_spread, kRepairIntervalMin);
}

[[nodiscard]] uint64_t last_cell(const TxPacket& packet) noexcept {
  return uint64_t{1} << (packet.cells - 1U);
}

/// The peer has lately reported missing cells.
[[nodiscard]] bool loses_cells(const SendSide& tx, Instant now) noexcept {
  return tx.gap_at != Instant::min() && now - tx.gap_at < kGapRemembered;
}

/// In SendProgress::head_clock.
[[nodiscard]] uint32_t head_clock_at(Instant now) noexcept {
  return static_cast<uint32_t>(now.time_since_epoch().count() >> 10);
}

/// How long the peer may be silent before cells are repeated: a few round trips when cells get lost.
Duration silence_allowed(const QueuePair& qp, Instant now) noexcept {
  const SendSide& tx = qp.tx;
  if (!loses_cells(tx, now) || qp.attr.retry_count == 0) [[likely]]
    return tx.timeout;
  return std::min(tx.timeout, std::max(tx.rtt, kRepairSilenceMin) * (1U << tx.repairs));
}

}  // namespace

const NakRule& nak_rule(AckCode code) noexcept {
  return kNakRules[static_cast<size_t>(code)];
}

bool Completer::number_of(const QueuePair& qp, Psn psn, uint64_t& number) const noexcept {
  const SendSide& tx = qp.tx;
  const int64_t distance = psn.distance_from(tx.psn_of(tx.first));
  if (distance < 0 || distance >= static_cast<int64_t>(tx.end - tx.first)) return false;
  number = tx.first + static_cast<uint64_t>(distance);
  return true;
}

void Completer::take_ack(QueuePair& qp, const CellView& cell) noexcept {
  SendSide& tx = qp.tx;
  const bool nak = cell.ack.code != AckCode::kAck;
  qp.counters.add(nak ? QpCounter::kNaksReceived : QpCounter::kAcksReceived);
  if (!qp.abilities().finish_send) return (void)take_ways(qp, cell);
  if (cell.ack.cell_number >= kCellsPerPacketMax) return qp.counters.add(QpCounter::kProtocolViolations);
  Progress progress;
  uint64_t number = 0;
  if (number_of(qp, cell.ack.psn, number)) {
    if (cell.ack.code == AckCode::kStandsStill) return stand_by(qp);
    if (nak) return take_nak(qp, cell, number);
    if (qp.config.ack_mode == AckMode::kStrict) {
      acknowledge_cells(qp, number, uint64_t{1} << (cell.ack.cell_number % kCellsPerPacketMax), progress);
    } else {
      acknowledge_before(qp, number, progress);
      acknowledge_cells(qp, number, cell_mask(cell.ack.cell_number + 1U), progress);
      if (cell.ack.cell_number + 1U >= tx.at(number).cells) acknowledge_before(qp, number + 1, progress);
    }
  } else {
    if (tx.cumulative == 0 && cell.opcode != Opcode::kWays) [[unlikely]]
      note_foreign_ack(qp);
    if (!cell.ack.psn.before(tx.psn_of(tx.end)) && !take_ack_of_failed(qp, cell, progress))
      return qp.counters.add(QpCounter::kProtocolViolations);  // acknowledges a PSN that was never sent
  }
  if (!cell.payload.empty() && !take_ways(qp, cell)) {
    take_blocks(qp, cell, progress);
    repair_gaps(qp);
  }
  if (progress.any) made_progress(qp);
}

/// An answer to a packet that was sent and then failed here. The peer has executed every earlier packet.
bool Completer::take_ack_of_failed(QueuePair& qp, const CellView& cell, Progress& progress) noexcept {
  SendSide& tx = qp.tx;
  if (tx.failed_end <= tx.end || !cell.ack.psn.before(tx.psn_of(tx.failed_end))) return false;
  if (qp.config.ack_mode == AckMode::kSelective) acknowledge_before(qp, tx.end, progress);
  return true;
}

void Completer::acknowledge_before(QueuePair& qp, uint64_t number, Progress& progress) noexcept {
  SendSide& tx = qp.tx;
  for (uint64_t n = tx.cumulative; n < number; ++n) {
    TxPacket& packet = tx.at(n);
    // While cells get lost, a cumulative ACK may have waited for other packets. Its delay is then no round
    // trip.
    if (n + 1 == tx.timed && !loses_cells(tx, engine_.now)) take_time(tx, packet, ~uint64_t{0});
    if (!packet.is_read) packet.arrived = cell_mask(packet.cells);
    packet.pending = packet.is_read ? packet.pending : 0;
    progress.any = true;
  }
  tx.cumulative = std::max(tx.cumulative, number);
}

/// `cells` of the timed packet are acknowledged. If its last cell is newly acknowledged, that gives a
/// round-trip sample.
void Completer::take_time(SendSide& tx, const TxPacket& packet, uint64_t cells) noexcept {
  if ((cells & ~packet.arrived & last_cell(packet)) == 0) return;
  tx.timed = 0;
  sample_rtt(tx, engine_.now - tx.timed_at);
}

void Completer::acknowledge_cells(QueuePair& qp, uint64_t number, uint64_t cells,
                                  Progress& progress) noexcept {
  TxPacket& packet = qp.tx.at(number);
  if (packet.is_read) return;
  cells &= cell_mask(packet.cells);
  if ((cells & ~packet.arrived) == 0) return;
  if (number + 1 == qp.tx.timed) take_time(qp.tx, packet, cells);
  packet.arrived |= cells;
  packet.pending &= ~cells;
  if (number == qp.tx.first) head_moved(qp.tx);
  qp.tx.newest_acked = std::max(qp.tx.newest_acked, number + 1);
  // A packet that was probed or failed its CRC had been acknowledged before; its cells again are no progress.
  // Such a packet must be executed in the end.
  if (!packet.probed && packet.crc_naks == 0) progress.any = true;
}

void Completer::take_blocks(QueuePair& qp, const CellView& cell, Progress& progress) noexcept {
  std::span<const std::byte> rest = cell.payload;
  for (uint32_t i = 0; i < kSelectiveBlocksMax && rest.size() >= sizeof(SelectiveBlockWire); ++i) {
    const Psn psn(load_be_once<uint32_t>(rest.data()));
    const uint32_t base = load_be_once<uint16_t>(rest.data() + 4);
    const uint64_t bits = load_be_once<uint64_t>(rest.data() + 8);
    uint64_t number = 0;
    if (base < kCellsPerPacketMax && number_of(qp, psn, number)) {
      acknowledge_cells(qp, number, bits << base, progress);
    }
    rest = rest.subspan(sizeof(SelectiveBlockWire));
  }
}

void Completer::repair_gaps(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  const uint64_t newest = std::min(tx.newest_acked, tx.end);
  // A packet that an earlier ACK of this round has covered waits for the next round, so that the cost of an
  // ACK grows only with its news.
  const bool new_round = engine_.now >= tx.repair_round + repair_interval(tx) / kRepairRounds;
  if (new_round) tx.repair_round = engine_.now;
  const auto ahead = static_cast<int32_t>(tx.repaired_to - static_cast<uint32_t>(tx.first));
  const uint64_t begin = tx.first + (new_round || ahead < 0 ? 0 : static_cast<uint32_t>(ahead));
  tx.repaired_to = static_cast<uint32_t>(newest == 0 ? 0 : newest - 1);  // of the newest more may be missing
  for (uint64_t n = begin; n < newest; ++n) {
    TxPacket& packet = tx.at(n);
    uint64_t before = cell_mask(packet.cells);
    if (packet.is_read) {
      // The first packet that the peer has not executed, although later ones have come: its request was lost,
      // or came too early and was dropped. The state of the other reads is unknown.
      before = n == tx.cumulative ? 1 : 0;
    } else if (n + 1 == newest) {
      before = cell_mask(static_cast<uint32_t>(std::bit_width(packet.arrived)));
    }
    const uint64_t missing = before & ~packet.arrived & ~packet.pending;
    if (missing == 0) continue;
    tx.gap_at = engine_.now;
    const TxPacket& proof = tx.at(newest - 1);
    const bool overtaken = packet.is_read && !proof.repeated && proof.sent_at > packet.sent_at;
    const bool lately = packet.repeated && engine_.now - packet.repaired_at < repair_interval(tx);
    if (overtaken || !lately) repeat(qp, n, missing);
  }
}

void Completer::repeat(QueuePair& qp, uint64_t number, uint64_t cells) noexcept {
  SendSide& tx = qp.tx;
  TxPacket& packet = tx.at(number);
  packet.pending |= cells;
  packet.repeated = true;
  if (number + 1 == tx.timed && (cells & last_cell(packet)) != 0) tx.timed = 0;
  packet.ack_wanted = true;
  packet.repaired_at = engine_.now;
  tx.cursor = std::min(tx.cursor, number);
  qp.counters.add(QpCounter::kCellsRepeated, static_cast<uint64_t>(std::popcount(cells)));
  engine_.schedule.want_send(qp);
}

void Completer::repeat_from(QueuePair& qp, uint64_t number, uint32_t cells_max) noexcept {
  SendSide& tx = qp.tx;
  uint32_t marked = 0;
  for (uint64_t n = number; n < tx.end && marked < cells_max; ++n) {
    TxPacket& packet = tx.at(n);
    if (!packet.sent) break;
    uint64_t missing = packet.is_read ? uint64_t{packet.arrived != cell_mask(packet.cells)}
                                      : cell_mask(packet.cells) & ~packet.arrived;
    if (missing == 0 && n == number) {
      // All cells have arrived, but no answer reports the packet as executed. Probe with its last cell first,
      // the next time with all cells.
      if (packet.probed) packet.arrived = 0;
      missing = packet.probed ? cell_mask(packet.cells) : uint64_t{1} << (packet.cells - 1U);
      packet.probed = true;
    }
    missing &= ~packet.pending;
    if (missing != 0) repeat(qp, n, missing);
    marked += static_cast<uint32_t>(std::popcount(missing));
  }
}

void Completer::take_nak(QueuePair& qp, const CellView& cell, uint64_t number) noexcept {
  SendSide& tx = qp.tx;
  const NakRule& rule = nak_rule(cell.ack.code);
  Progress progress;
  // A NAK that ends the connection leaves when everything before its PSN has been executed. In strict mode
  // the ACKs of that which had not left are dropped with the peer's QP.
  if (qp.config.ack_mode == AckMode::kSelective || !rule.repeats) acknowledge_before(qp, number, progress);
  if (progress.any) made_progress(qp);
  if (qp.state == QpState::kErr || number < tx.first) return;
  if (!rule.repeats) return fail_packet(qp, number, {rule.reason});
  if (cell.ack.code == AckCode::kReceiverNotReady) {
    qp.counters.add(QpCounter::kRnrNaksReceived);
    if (engine_.now < tx.rnr_until) return;  // the pause for this packet is running
    note_rnr(qp, number);
    if (qp.attr.rnr_retry != kRnrForEver && tx.rnr_retries++ >= qp.attr.rnr_retry) {
      return fail_packet(qp, number, {rule.reason});
    }
    tx.rnr_until = engine_.now + rnr_delay(cell.ack.cell_number);
    tx.retries = 0;  // the peer has answered: silence counts from here
    tx.progress_at = tx.rnr_until;
    tx.retransmit_at = kNever;
    engine_.timers.arm(qp, tx.rnr_until);
    return;
  }
  TxPacket& packet = tx.at(number);
  if (cell.ack.code == AckCode::kPacketCrc) {
    if (packet.crc_naks++ >= qp.attr.retry_count) return fail_packet(qp, number, {rule.reason});
    packet.arrived = 0;
  } else {
    if (packet.repeated && engine_.now - packet.repaired_at < repair_interval(tx)) return;
    acknowledge_cells(qp, number, cell_mask(cell.ack.cell_number), progress);
  }
  repeat_from(qp, number, kRetransmitCellsMax);
}

void Completer::take_read_response(QueuePair& qp, const CellView& cell) noexcept {
  SendSide& tx = qp.tx;
  uint64_t number = 0;
  if (!qp.abilities().finish_send || !number_of(qp, cell.psn, number)) return;
  TxPacket& packet = tx.at(number);
  const uint32_t begin = cell.cell_number * qp.path.segment_bytes;
  const bool atomic = cell.opcode == Opcode::kFetchOpResponse;
  const bool answers = packet.is_read && atomic == is_atomic_request(packet.opcode);
  if (!answers || cell.cell_number >= packet.cells) {
    qp.counters.add(QpCounter::kProtocolViolations);
    return fail_packet(qp, number, {Reason::kPeerBadResponse});
  }
  const uint64_t bit = uint64_t{1} << cell.cell_number;
  if ((packet.arrived & bit) != 0) return qp.counters.add(QpCounter::kDuplicateCells);
  if (cell.payload.size() != std::min(qp.path.segment_bytes, packet.bytes - begin)) {
    qp.counters.add(QpCounter::kProtocolViolations);
    return fail_packet(qp, number, {Reason::kPeerBadResponse});
  }
  const SendWqe& wqe = qp.sq.at(packet.wqe);
  if (engine_.several_nics != nullptr && awaits_key(qp, packet, cell)) [[unlikely]]
    return;
  std::span<const std::byte> data = cell.payload;
  uint64_t value = 0;
  if (atomic) {  // a number: stored in the byte order of this host
    value = load_be<uint64_t>(data.data());
    data = std::as_bytes(std::span(&value, 1));
  }
  const AccessFault fault = writer_.place_response(qp, {qp.sq.sges(packet.wqe), wqe.sge_count},
                                                   uint64_t{packet.offset} + begin, data);
  if (fault != AccessFault::kNone) [[unlikely]] {
    const Sge* segment = writer_.find_bad_segment(qp, packet.wqe, AccessKind::kLocalWrite);
    return fail_packet(qp, number, {local_reason(fault), segment});
  }
  packet.arrived |= bit;
  if (number == tx.first) head_moved(tx);
  tx.newest_acked = std::max(tx.newest_acked, number + 1);
  Progress progress{true};
  if (qp.config.ack_mode == AckMode::kSelective) acknowledge_before(qp, number, progress);
  made_progress(qp);
  // The last response cell has come and others have not: they are lost, so ask again.
  const bool gap = number >= tx.first && cell.has(kCellLast) && packet.arrived != cell_mask(packet.cells);
  if (gap && !packet.pending && engine_.now - packet.repaired_at >= repair_interval(tx))
    repeat(qp, number, 1);
}

void Completer::made_progress(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  tx.progress_at = engine_.now;
  tx.retries = tx.rnr_retries = tx.repairs = 0;
  tx.still_ms = 0;
  tx.lane_mark = 0;
  retire_packets(qp);
  tx.timeout = base_timeout(qp);
  rearm(qp);
  retire(qp);
  if (qp.sq.started < qp.sq.rung) engine_.schedule.want_send(qp);  // the window is open again
}

void Completer::sample_rtt(SendSide& tx, Duration sample) noexcept {
  if (!tx.rtt_known) {
    tx.rtt_known = true;
    tx.rtt = sample;
    tx.rtt_spread = sample / 2;
    return;
  }
  const Duration error = sample - tx.rtt;
  tx.rtt += error / 8;
  tx.rtt_spread += ((error < Duration::zero() ? -error : error) - tx.rtt_spread) / 4;
}

void Completer::retire_packets(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  const bool strict = qp.config.ack_mode == AckMode::kStrict;
  while (tx.first < tx.end) {
    TxPacket& packet = tx.at(tx.first);
    const bool whole = packet.arrived == cell_mask(packet.cells);
    if (packet.is_read || strict ? !whole : tx.first >= tx.cumulative) break;
    tx.bytes_in_flight -= packet.bytes;
    if (packet.is_read) --tx.reads_in_flight;
    if (packet.last) qp.sq.at(packet.wqe).done = true;
    ++tx.first;
    head_moved(tx);
    tx.packets.pass(engine_.tx_chunks, tx.first, tx.end - tx.first);
  }
  if (tx.first == tx.end) tx.packets.rest(engine_.tx_chunks);
  tx.cursor = std::max(tx.cursor, tx.first);
  tx.cumulative = std::max(tx.cumulative, tx.first);
}

void Completer::rearm(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  if (tx.first == tx.end || !qp.acknowledged()) {
    tx.retransmit_at = kNever;
    // With a send window of 1 the next request needs the timer again.
    const bool by_turns = qp.acknowledged() && qp.row->send_window == 1;
    if (!by_turns && !waits_for_time(qp)) engine_.timers.rest(qp);
    return;
  }
  tx.retransmit_at = engine_.now + silence_allowed(qp, engine_.now);
  if (tx.head_clock != head_clock_at(engine_.now)) [[unlikely]]
    tx.retransmit_at = std::min(tx.retransmit_at, head_due(qp));
  engine_.timers.arm(qp, tx.retransmit_at);
}

/// Something new of the oldest packet was acknowledged, or another packet is the oldest.
void Completer::head_moved(SendSide& tx) noexcept {
  tx.head_clock = head_clock_at(engine_.now);
  tx.head_repeats = 0;
}

/// When the oldest packet is to be repeated although others are acknowledged. kNever: it has not left, or not
/// again, or may not leave now, or the QP has no retries.
Instant Completer::head_due(QueuePair& qp) const noexcept {
  SendSide& tx = qp.tx;
  const TxPacket& head = tx.at(tx.first);
  const bool may_leave = qp.attr.retry_count != 0 && engine_.now >= tx.rnr_until && engine_.path_ready(qp);
  if (!head.sent || head.pending != 0 || !may_leave) return kNever;
  const Instant head_at = engine_.now - Duration(int64_t{head_clock_at(engine_.now) - tx.head_clock} << 10);
  return std::max({head_at, head.sent_at, head.repaired_at}) + tx.timeout * (1U << tx.head_repeats);
}

void Completer::packet_sent(QueuePair& qp, uint64_t number) noexcept {
  SendSide& tx = qp.tx;
  TxPacket& packet = tx.at(number);
  // Only one packet at a time is timed, by its last cell. When cells get lost, few packets arrive without a
  // repetition.
  if (!packet.sent && !packet.is_read && tx.timed <= tx.first) {
    tx.timed = number + 1;
    tx.timed_at = engine_.now;
  }
  packet.sent = true;
  packet.sent_at = engine_.now;
  if (!qp.acknowledged()) {
    tx.bytes_in_flight -= packet.bytes;
    if (packet.last) qp.sq.at(packet.wqe).done = true;
    tx.first = tx.cumulative = number + 1;
    if (qp.row->is_paced) pace(qp, packet.bytes);
    return retire(qp);
  }
  if (tx.retransmit_at == kNever) {
    tx.progress_at = engine_.now;
    tx.retries = 0;
    tx.timeout = base_timeout(qp);
    rearm(qp);
  }
}

/// A QP with a rate limit pauses for the time that the sent bytes take at this rate.
void Completer::pace(QueuePair& qp, uint32_t bytes) noexcept {
  if (qp.attr.rate_limit_kbps == 0) return;
  const uint64_t bits = (uint64_t{bytes} + kCellOverheadBytes) * 8;
  const Instant from = std::max(qp.tx.delay_until, engine_.now - kRateBurst);
  qp.tx.delay_until = from + std::chrono::nanoseconds(bits * 1'000'000 / qp.attr.rate_limit_kbps);
  engine_.timers.arm(qp, qp.tx.delay_until);
}

void Completer::retire(QueuePair& qp) noexcept {
  SendQueue& sq = qp.sq;
  const uint64_t before = sq.done;
  while (sq.done < sq.started && sq.at(sq.done).done) {
    if (!complete_head(qp)) return;
  }
  if (sq.done != before && sq.started < sq.rung) engine_.schedule.want_send(qp);
  if (qp.state == QpState::kSqd && !qp.tx.drain_reported && drained(qp)) {
    qp.tx.drain_reported = true;
    engine_.raise(qp, AsyncEventKind::kSqDrained);
  }
}

bool Completer::drained(const QueuePair& qp) noexcept {
  return qp.sq.done == qp.sq.started && qp.tx.first == qp.tx.end && !qp.sq.half_executed();
}

bool Completer::complete_head(QueuePair& qp) noexcept {
  SendQueue& sq = qp.sq;
  const SendWqe& wqe = sq.at(sq.done);
  const bool signaled = qp.config.signal_all || (wqe.flags & kSendSignaled) != 0;
  ++sq.done;
  if (wqe.status != WcStatus::kSuccess) [[unlikely]]
    return complete_failed(qp, wqe);
  qp.counters.add(QpCounter::kMessagesSent);
  qp.counters.add(QpCounter::kBytesSent, wqe.length);
  if (signaled) {
    engine_.complete(qp.config.send_cq, qp.qpn, [&](WorkCompletion& entry) {
      entry.wr_id = wqe.wr_id;
      entry.status = WcStatus::kSuccess;
      entry.opcode = wqe.rule->completion;
      entry.flags = 0;
      entry.sl = {};
      entry.qpn = qp.qpn;
      entry.byte_count = wqe.length;
      entry.imm = 0;
      entry.written_va = 0;
      entry.invalidated = {};
      entry.src_lid = {};
      entry.pkey_index = 0;
      entry.src_qpn = {};
      entry.place = static_cast<uint32_t>(sq.done);
    });
  }
  return qp.state != QpState::kErr;
}

bool Completer::waits_for_time(const QueuePair& qp) const noexcept {
  const SendSide& tx = qp.tx;
  return tx.retransmit_at != kNever || tx.rnr_until != Instant::min() || tx.delay_until > engine_.now;
}

void Completer::on_timer(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  const Instant now = engine_.now;
  if (tx.rnr_until != Instant::min() && now >= tx.rnr_until) {
    tx.rnr_until = Instant::min();
    repeat_from(qp, tx.first, ~0U);
    engine_.schedule.want_send(qp);  // also for cells marked before or during the pause
    rearm(qp);
  }
  if (now >= tx.retransmit_at) on_retransmit_timer(qp);
  await_next(qp);
}

void Completer::await_next(QueuePair& qp) noexcept {
  const SendSide& tx = qp.tx;
  const Instant now = engine_.now;
  if (tx.delay_until != Instant::min() && now >= tx.delay_until) engine_.schedule.want_send(qp);
  Instant next = tx.retransmit_at;
  for (const Instant pause : {tx.rnr_until, tx.delay_until}) {
    if (pause > now) next = std::min(next, pause);
  }
  if (next != kNever) engine_.timers.arm(qp, next);
}

void Completer::on_retransmit_timer(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  if (tx.first == tx.end) {
    tx.retransmit_at = kNever;
    return;
  }
  const TxPacket& head = tx.at(tx.first);
  if (!engine_.path_ready(qp) || head.pending != 0 || engine_.now < tx.rnr_until) {
    // A request that has not left can have no answer: the port is down (decisions 2.12), the lane has no
    // credit, or the responder asked for a pause. The timer's own time was waited for, no more.
    wait_on(qp, silence_allowed(qp, engine_.now));
    return rearm(qp);
  }
  const Instant quiet_since = std::max(tx.progress_at, head.sent_at);
  const Duration allowed = silence_allowed(qp, engine_.now);
  if (engine_.now - quiet_since < allowed) {
    if (engine_.now >= head_due(qp)) {
      tx.head_repeats = std::min<uint8_t>(tx.head_repeats + 1, kHeadRepeatsMax);
      repeat_from(qp, tx.first, 1);
    }
    tx.retransmit_at = std::min(quiet_since + allowed, head_due(qp));
    return;
  }
  if (allowed >= tx.timeout && waits_at_neighbour(qp)) {
    tx.retransmit_at = engine_.now + allowed;
    return;
  }
  tx.lane_mark = 0;
  qp.counters.add(QpCounter::kTimeouts);
  const Duration silence = engine_.now - tx.progress_at;
  // While cells get lost, single questions are repeated early. They are no reason to leave the way.
  if (qp.ways != nullptr && (allowed >= tx.timeout || silence >= base_timeout(qp)))
    engine_.several_nics->ways.search(qp);
  if (qp.attr.ack_timeout > Duration::zero() && silence >= qp.attr.ack_timeout * (tx.retries + 1) &&
      tx.retries++ >= qp.attr.retry_count) {
    const bool armed = qp.attr.path_mig_state == PathMigState::kArmed;
    if (armed && migrate(engine_, qp)) return repeat_all(qp);
    return fail_packet(qp, tx.first, {silence_reason(qp)});
  }
  if (allowed < tx.timeout) {
    ++tx.repairs;
    repeat_from(qp, tx.first, kRepairCellsMax);
  } else {
    tx.timeout = std::min(tx.timeout * 2, longest_timeout(qp));
    repeat_from(qp, tx.first, tx.still_ms != 0 ? 1 : kRetransmitCellsMax);
  }
  rearm(qp);
}

/// No answer was possible for this time, but the retries used before still count. Otherwise a QP would wait
/// for a dead peer as long as the port goes down and up, or the lane has no credit now and then.
void Completer::wait_on(QueuePair& qp, Duration time) noexcept {
  qp.tx.progress_at = std::min(engine_.now - qp.attr.ack_timeout * qp.tx.retries, qp.tx.progress_at + time);
  qp.tx.lane_mark = 0;  // of a lane that may have begun anew
}

void Completer::repeat_by_new_link(QueuePair& qp) noexcept {
  wait_on(qp, engine_.now - qp.tx.progress_at);
  repeat_missing(qp);
}

void Completer::repeat_all(QueuePair& qp) noexcept {
  qp.tx.progress_at = engine_.now;
  qp.tx.retries = 0;
  repeat_missing(qp);
}

void Completer::repeat_missing(QueuePair& qp) noexcept {
  const SendSide& tx = qp.tx;
  if (tx.first == tx.end) return;
  repeat_from(qp, tx.first, ~0U);
  rearm(qp);
}

}  // namespace weft::adapter
