// Part of the completer: failed requests and their reports, and responses that wait for a key.
// adapter/transport/completer.cc explains how the completer works.
#include <algorithm>
#include <chrono>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/completer.h"
#include "fabric/link/limits.h"

namespace weft::adapter {
namespace {

uint64_t milliseconds(Duration time) noexcept {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

}  // namespace

void Completer::fail_packet(QueuePair& qp, uint64_t number, const SendFault& fault) noexcept {
  SendSide& tx = qp.tx;
  SendQueue& sq = qp.sq;
  fail_wqe(qp, sq.at(tx.at(number).wqe), fault);
  tx.halted = true;
  sq.started = sq.done + (tx.at(number).wqe - static_cast<uint32_t>(sq.done)) + 1U;
  for (uint64_t n = number; n < tx.end; ++n) {
    tx.bytes_in_flight -= tx.at(n).bytes;
    tx.reads_in_flight -= tx.at(n).is_read ? 1U : 0U;
  }
  tx.failed_end = std::max(tx.failed_end, tx.end);
  // Without acknowledgements the peer may have received some cells of the failed packet. The next packet must
  // not look like the rest of it, so the PSN is not used again and the peer notices a gap.
  tx.end = qp.acknowledged() ? number : number + 1;
  tx.newest_acked = std::min(tx.newest_acked, tx.end);
  tx.cursor = std::min(tx.cursor, number);
  tx.cumulative = std::min(tx.cumulative, number);
  retire(qp);
}

void Completer::fail_wqe(QueuePair& qp, SendWqe& wqe, const SendFault& fault) noexcept {
  const bool connected = qp.connected();
  const WcStatus status = rule_of(fault.reason).status;
  Failure failure{.reason = fault.reason,
                  .work = work_of(wqe.rule->completion),
                  .status = static_cast<uint8_t>(status),
                  .completes_wr = true,
                  .peer_lid = connected ? uint16_t{0} : wqe.dest.lid.value(),
                  .peer_qpn = connected ? 0 : wqe.dest.qpn.value(),
                  .wr_id = wqe.wr_id,
                  .bytes = wqe.length};
  if (fault.segment != nullptr) {
    failure.key = fault.segment->lkey.value();
    failure.address = fault.segment->addr;
    failure.bytes = fault.segment->length;
    engine_.computer.of(failure.key).show_range(failure.key, failure.expected, failure.extent);
  } else if (wqe.rule->needs_remote_key) {
    failure.key = wqe.rkey.value();
    failure.address = wqe.remote_addr;
  }
  if (status == WcStatus::kRnrRetryExceeded) failure.extent = qp.attr.rnr_retry;
  if (status == WcStatus::kRetryExceeded) {
    failure.expected = milliseconds(engine_.now - qp.tx.progress_at);
    failure.extent = qp.attr.retry_count;
  }
  engine_.report(qp, failure);
  wqe.status = status;
  // `imm` is free to use: the last packet, which would carry it, is never sent.
  wqe.imm = static_cast<uint32_t>(fault.reason);
  wqe.done = true;
}

/// True for a ways cell, which has no blocks.
bool Completer::take_ways(QueuePair& qp, const CellView& cell) noexcept {
  if (cell.opcode != Opcode::kWays) return false;
  if (qp.ways != nullptr) (void)engine_.several_nics->ways.take(qp, engine_.port_of(qp), cell);
  return true;
}

/// The peer has acknowledged a PSN that was never sent, and no packet that was sent.
void Completer::note_foreign_ack(QueuePair& qp) noexcept {
  qp.other_psn = qp.tx.first == 0 && qp.tx.end != 0;
}

Reason Completer::silence_reason(QueuePair& qp) noexcept {
  const SendSide& tx = qp.tx;
  if (tx.cumulative != 0) return Reason::kPeerWentSilent;
  // A peer that expects a slightly lower PSN keeps the packet and never executes it.
  if (qp.other_psn || qp.tx.at(tx.first).probed) return Reason::kPeerOtherPsn;
  return tx.newest_acked != 0 ? Reason::kPeerWentSilent : Reason::kPeerNeverAnswered;
}

/// The peer's process stands still, as the switch next to it reports. For at most kStandstillMax this does
/// not count as silence of a lost peer. One cell is repeated from time to time; the rest waits.
void Completer::stand_by(QueuePair& qp) noexcept {
  engine_.count(AdapterCounter::kStandstillsHeard);
  static_cast<void>(forgive(qp));
}

/// The silence up to now uses up no retries, for at most kStandstillMax without an acknowledgement. False
/// when that time is over.
bool Completer::forgive(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  const auto silent = std::chrono::ceil<std::chrono::milliseconds>(engine_.now - tx.progress_at);
  const int64_t forgiven = tx.still_ms + std::max<int64_t>(silent.count(), 1);
  if (forgiven > kStandstillMax / 1ms) return false;
  tx.still_ms = static_cast<uint16_t>(forgiven);
  tx.retries = 0;
  tx.progress_at = engine_.now;
  return true;
}

/// True while cells that were sent in time may wait at the neighbour, for example for the rate of a slow
/// link (docs/faults.md): a cell that has not left it can have no answer. The credits of one lane do not tell
/// which cells have left, and news of them may be lost. So the first look notes what was sent, asks for the
/// news again, and is believed for one more timeout. After it, only cells that were sent before count. A
/// switch gives up a queue that moves nothing for kHeadOfQueueLifetime.
bool Completer::waits_at_neighbour(QueuePair& qp) noexcept {
  SendSide& tx = qp.tx;
  const fabric::LaneTotals lane = qp.path.carrier->lane_totals(qp.path.vl);
  if (lane.returned == lane.sent) return false;
  if (tx.lane_mark == 0) {
    tx.lane_mark = std::max(static_cast<uint32_t>(lane.sent), 1U);
    return true;
  }
  const auto left = static_cast<int32_t>(static_cast<uint32_t>(lane.returned) - tx.lane_mark);
  return left < 0 && tx.still_ms < fabric::kHeadOfQueueLifetime / 1ms && forgive(qp);
}

/// Reports a request with unlimited RNR retries once it has waited for kRnrWaitTold.
void Completer::note_rnr(QueuePair& qp, uint64_t number) noexcept {
  if (qp.attr.rnr_retry != kRnrForEver) return;
  const Qpn packet(static_cast<uint32_t>(number) & Psn::kMask);
  if (!engine_.failures.note({Reason::kPeerNeverReceives, qp.qpn, qp.peer_lid, packet}, engine_.now,
                             kRnrWaitTold))
    return;
  const SendWqe& wqe = qp.sq.at(qp.tx.at(number).wqe);
  engine_.report(qp, {.reason = Reason::kPeerNeverReceives,
                      .work = work_of(wqe.rule->completion),
                      .completes_wr = true,
                      .wr_id = wqe.wr_id,
                      .bytes = wqe.length,
                      .expected = milliseconds(kRnrWaitTold)});
}

void Completer::registration_failed(QueuePair& qp) noexcept {
  switch (qp.config.registration) {
    case SendRegistration::kOff:
      break;                           // like any other request that fails
    case SendRegistration::kReactive:  // earlier WQEs go on
      qp.state = QpState::kSqd;
      qp.tx.drain_reported = false;
      break;
    case SendRegistration::kAnticipatory:  // everything stops
      flush_send_before(engine_, qp, qp.sq.started - 1);
      break;
  }
}

bool Completer::complete_failed(QueuePair& qp, const SendWqe& wqe) noexcept {
  const WcStatus status = wqe.status;
  qp.failed_by = static_cast<Reason>(wqe.imm);
  engine_.complete(qp.config.send_cq, {.wr_id = wqe.wr_id,
                                       .status = status,
                                       .opcode = wqe.rule->completion,
                                       .qpn = qp.qpn,
                                       .byte_count = wqe.length,
                                       .imm = code_of(qp.failed_by),
                                       .place = static_cast<uint32_t>(qp.sq.done)});
  if (wqe.rule->work == SendWork::kRegister && qp.config.registration == SendRegistration::kReactive) {
    flush_send(engine_, qp);  // the consumer may post them again, and the failed one
    qp.tx.halted = false;
    return true;
  }
  if (qp.acknowledged()) {
    enter_error(engine_, qp, AsyncEventKind::kQpFatal, status, true);
  } else {
    enter_send_error(engine_, qp);
  }
  return false;
}

/// A response has arrived at a NIC that does not know a key of its memory: the cell waits (MIG-READ-01). It
/// does not wait for a second key when the first is invalid. The request fails, and asking for each key in
/// turn would find no end.
bool Completer::awaits_key(QueuePair& qp, const TxPacket& packet, const CellView& cell) noexcept {
  const KeyQuestions& questions = engine_.several_nics->questions;
  const std::span<const Sge> list{qp.sq.sges(packet.wqe), qp.sq.at(packet.wqe).sge_count};
  const auto names = [&](auto&& rule) {
    return std::find_if(list.begin(), list.end(),
                        [&](const Sge& sge) { return sge.length != 0 && rule(sge.lkey.value()); });
  };
  const auto unknown = names([&](uint32_t key) { return questions.may_ask(qp, key); });
  if (unknown == list.end()) return false;
  if (names([&](uint32_t key) { return questions.is_invalid(qp, key); }) != list.end()) return false;
  (void)engine_.several_nics->questions.wait(qp, cell, unknown->lkey.value());
  return true;
}

}  // namespace weft::adapter
