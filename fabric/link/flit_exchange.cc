// How it works. Sending: claim() hands out the next carrier slot. commit() writes the header into it: number,
// newest acknowledgement, one lane's credit. Every eighth flit, and flush(), publish. Receiving: each slot is
// checked once. The next number in order is accepted. An older number is a duplicate. A newer number, or
// damage, means a gap: if the carrier keeps the slots, they are read again from the gap on; otherwise the
// peer is asked to repeat. Flits without data name the last data flit sent before them, so the loss of a tail
// is noticed too. Acknowledgements and credits travel on data flits. If eight flits are owed and no data flit
// goes out, or when the link idles, they travel alone. If there is no progress, the peer is asked to answer.
// Its answer names its last flit in order and the credit of every lane used, which repairs every loss of
// flits without data.
#include "fabric/link/flit_exchange.h"

#include <algorithm>

#include "base/check.h"
#include "base/prefetch.h"
#include "messages/cell_flit.h"

namespace weft::fabric {
namespace {

constexpr Duration kGaugeInterval = 10ms;

constexpr std::array<LinkCounter, static_cast<size_t>(FlitError::kCount)> kRefusals{
    LinkCounter::kCount,  // kNone: not a refusal
    LinkCounter::kTooShort, LinkCounter::kBadLength,   LinkCounter::kBadCrc,  LinkCounter::kBadCellCrc,
    LinkCounter::kBadKind,  LinkCounter::kBadReserved, LinkCounter::kBadLane, LinkCounter::kBadFlags};

}  // namespace

FlitExchange::FlitExchange(const LinkTimers& timers, CounterSet<LinkCounter>& counters) noexcept
    : counters_(counters),
      ack_delay_(timers.ack_delay),
      repeat_patience_(timers.probe_steady),
      watch_(timers),
      sender_(counters) {}

void FlitExchange::start(Carrier& carrier, const LinkParams& params, Instant now) noexcept {
  carrier_ = &carrier;
  profile_ = {params.flit_payload_bytes, params.lanes, params.whole_cell_flits};
  tell_at_ = std::clamp(params.credits_per_lane / 2, 1U, kFlitsPerAck);
  credits_.reset(params.lanes, params.credits_per_lane);
  sender_.start(carrier, params.whole_cell_flits);
  sequence_.reset();
  watch_.start(now);
  broken_ = repeat_wanted_ = answer_now_ = false;
  owed_since_ = kNever;
  now_ = now;
}

void FlitExchange::stop() noexcept {
  sender_.stop();
  credits_.clear_gauges();
  rx_count_ = 0;
  carrier_ = nullptr;
}

// ---- sending --------------------

std::byte* FlitExchange::claim(VirtualLane vl) noexcept {
  if (!credits_.ask(vl)) [[unlikely]]
    return nullptr;
  std::byte* slot = sender_.claim();
  if (slot == nullptr) [[unlikely]] {
    counters_.add(LinkCounter::kSlotStalls);
    return nullptr;
  }
  return slot + kFlitHeaderBytes;
}

/// Acknowledgement and credit for the next flit. Inline, so that the header is put together in registers.
[[gnu::always_inline]] inline FlitNews FlitExchange::news() noexcept {
  return {sequence_.tell(), credits_.tell()};
}

void FlitExchange::commit(const TxFlit& flit) noexcept {
  WEFT_DCHECK(flit.payload_bytes <= profile_.payload_bytes_max, "flit longer than the link carries");
  credits_.spend(flit.vl);
  sender_.commit(flit, news(), now_);
}

bool FlitExchange::send_control(FlitKind kind, uint8_t flags) noexcept {
  if (!sender_.claim_control()) return false;
  sender_.commit_control(kind, flags, news());
  return true;
}

void FlitExchange::tell_peer(bool everything) noexcept {
  const uint64_t threshold = everything || answer_now_ ? 1 : tell_at_;
  bool acknowledge = sequence_.untold() >= threshold;
  if (answer_now_) {
    answer_now_ = false;
    acknowledge = true;
    credits_.tell_again();
  }
  // Each flit tells one lane's credit, so one round over the lanes is enough.
  for (uint32_t turn = 0; turn <= profile_.lanes; ++turn) {
    if (!acknowledge && !credits_.owes(threshold)) return;
    if (!send_control(acknowledge ? FlitKind::kAck : FlitKind::kCredit, 0)) return;
    acknowledge = false;
  }
}

bool FlitExchange::all_told() const noexcept {
  return sequence_.untold() == 0 && credits_.all_told();
}

void FlitExchange::flush(Instant now) noexcept {
  now_ = now;
  tell_peer(false);
  sender_.publish(now);
  sender_.count_sent();
  if (all_told()) {
    owed_since_ = kNever;
  } else if (owed_since_ == kNever) {
    owed_since_ = now;
  }
}

void FlitExchange::ask() noexcept {
  if (send_control(FlitKind::kAck, kFlitAnswer)) counters_.add(LinkCounter::kProbesSent);
}

// ---- receiving --------------------

[[gnu::always_inline]] inline bool FlitExchange::absorb_news(const FlitFields& fields) noexcept {
  const FlitSender::Heard heard = sender_.hear(fields.acknowledged);
  if (heard == FlitSender::Heard::kBeyondSent) {
    fault(LinkCounter::kAckBeyondSent);
    return false;
  }
  if (!credits_.absorb(fields.credit_vl, fields.credit)) {
    fault(LinkCounter::kCreditBeyondSent);
    return false;
  }
  const bool relieved = credits_.relieved(fields.credit_vl);
  if (heard != FlitSender::Heard::kProgress && !relieved) return true;
  if (!credits_.starves()) {
    watch_.progress();
  } else if (!carrier_->keeps_all()) {  // the traffic of other lanes does not put the question off
    watch_.progress_elsewhere(now_);
  }
  return true;
}

[[gnu::always_inline]] inline bool FlitExchange::take_data(const FlitView& flit, uint64_t position) noexcept {
  const FlitFields& fields = flit.fields;
  const int ahead = sequence_.ahead(fields.sequence);
  if (ahead < 0) {
    counters_.add(LinkCounter::kDuplicates);
    sequence_.pass(position);
    return true;
  }
  if (ahead > 0) {
    counters_.add(LinkCounter::kOutOfSequence);
    return ask_repeat(sequence_.begins_round(ahead));
  }
  if (!accept(fields, position)) return false;
  rx_[rx_count_++] = {fields.vl,
                      (fields.flags & kFlitHead) != 0,
                      (fields.flags & kFlitTail) != 0,
                      (fields.flags & kFlitPoison) != 0,
                      flit.cell_crc,
                      flit.payload};
  return true;
}

/// Accepts the next flit in order, also if its cell is then not handed out.
[[gnu::always_inline]] inline bool FlitExchange::accept(const FlitFields& fields,
                                                        uint64_t position) noexcept {
  if (!credits_.arrive(fields.vl)) {
    fault(LinkCounter::kSentWithoutCredit);
    return false;
  }
  if (!sequence_.fits_framing(fields.vl, fields.flags)) {
    fault(LinkCounter::kBadFraming);
    return false;
  }
  sequence_.accept(position);
  return true;
}

/// Inline: the fields of a whole cell, the most frequent flit, then stay in registers.
[[gnu::always_inline]] inline bool FlitExchange::take_slot(const RxSlot& slot) noexcept {
  FlitView flit;
  if (!decode_cell_flit({slot.bytes, slot.size}, profile_, flit)) [[unlikely]]
    return take_other(slot);
  return absorb_news(flit.fields) && take_data(flit, slot.position);
}

bool FlitExchange::take_other(const RxSlot& slot) noexcept {
  FlitView flit;
  const FlitError error = decode_flit({slot.bytes, slot.size}, profile_, flit);
  if (error != FlitError::kNone) [[unlikely]]
    return refuse(error, flit.fields, slot.position);
  if (!absorb_news(flit.fields)) return false;
  return flit.fields.kind == FlitKind::kData ? take_data(flit, slot.position)
                                             : take_control(flit, slot.position);
}

std::span<const RxFlit> FlitExchange::receive() noexcept {
  const uint32_t first = rx_count_;
  const uint32_t count = carrier_->receive(std::span(arrived_).first(kFlitsPerReceiveMax - first));
  if (count == 0 && !repeat_wanted_) return {};
  // Prefetches as many bytes as the flit before had, or, for the first flits, as one of the last burst. Lines
  // beyond the flit would travel between the ends for nothing.
  const uint32_t like_last =
      kFlitHeaderBytes + static_cast<uint32_t>(rx_[first == 0 ? 0 : first - 1].payload.size());
  if (count > 1) prefetch_to_read(arrived_[1].bytes, std::min(arrived_[1].size, like_last));
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t soon = i + kPrefetchSlots;
    if (soon < count) prefetch_to_read(arrived_[soon].bytes, std::min(arrived_[soon].size, like_last));
    if (!take_slot(arrived_[i])) break;
  }
  if (count != 0) watch_.heard(now_);
  sender_.retire();
  if (repeat_wanted_) [[unlikely]] {
    repeat_wanted_ = false;
    if (!sender_.serve_repeat(now_)) fault(LinkCounter::kRepeatsExhausted);
  }
  if (rx_count_ != first) {
    counters_.add(LinkCounter::kFlitsReceived, rx_count_ - first);
  } else if (rx_count_ == 0 && count != 0) {
    carrier_->release(sequence_.consumed());
  }
  return std::span(rx_).subspan(first, rx_count_ - first);
}

void FlitExchange::release() noexcept {
  if (rx_count_ == 0) return;
  rx_count_ = 0;
  if (carrier_ != nullptr) carrier_->release(sequence_.consumed());
}

bool FlitExchange::take_control(const FlitView& flit, uint64_t position) noexcept {
  const FlitFields& fields = flit.fields;
  const bool answer = (fields.flags & kFlitAnswer) != 0;
  counters_.add(fields.kind == FlitKind::kCredit ? LinkCounter::kCreditFlitsReceived
                                                 : LinkCounter::kAckFlitsReceived);
  repeat_wanted_ |= fields.kind == FlitKind::kRepeat;
  answer_now_ |= answer;
  if (answer && owed_since_ == kNever) owed_since_ = now_;
  if (sequence_.misses(fields.sequence)) return ask_repeat(answer);
  sequence_.pass(position);
  return true;
}

bool FlitExchange::refuse(FlitError error, const FlitFields& fields, uint64_t position) noexcept {
  const LinkCounter reason = kRefusals[static_cast<size_t>(error)];
  if (is_damage(error)) {
    counters_.add(reason);
    const bool is_next = error == FlitError::kCellCrc && sequence_.ahead(fields.sequence) == 0;
    if (is_next && !sequence_.count_damaged()) return drop_torn(fields, position);
    return ask_repeat(false);
  }
  fault(reason);
  return false;
}

/// Takes the flit and drops its cell. Only the cell's CRC is wrong, in every repeat: a switch forwards a cell
/// that a hostile endnode changed during the copy, and no repeat makes that cell whole. The link is good, so
/// the cell counts as lost like a cell that was never sent, and its credit goes back.
bool FlitExchange::drop_torn(const FlitFields& fields, uint64_t position) noexcept {
  if (!absorb_news(fields) || !accept(fields, position)) return false;
  counters_.add(LinkCounter::kTornCells);
  grant(fields.vl, 1);
  return true;
}

bool FlitExchange::ask_repeat(bool again) noexcept {
  const bool by_carrier = carrier_->reread(sequence_.consumed());
  if (!by_carrier && !again && sequence_.is_asked_for(now_, repeat_patience_)) return true;
  if (!sequence_.count_repeat()) {
    fault(LinkCounter::kRepeatsExhausted);
    return false;
  }
  if (by_carrier) {
    counters_.add(LinkCounter::kRereads);
    return false;
  }
  sequence_.note_asked(now_);
  if (send_control(FlitKind::kRepeat, 0)) counters_.add(LinkCounter::kRepeatsRequested);
  return true;
}

void FlitExchange::fault(LinkCounter reason) noexcept {
  counters_.add(reason);
  broken_ = true;
}

/// A sleeping peer need not acknowledge the last few flits. If the carrier shows the peer's position in the
/// ring, that position tells how far the peer is.
TakenFlits FlitExchange::taken() const noexcept {
  if (sender_.unacknowledged() == 0) return {sender_.acknowledged(), true};
  if (!carrier_->keeps_all()) return {sender_.acknowledged(), false};
  const uint64_t before = carrier_->taken_before();
  return {before, before > sender_.newest()};
}

// ---- time --------------------

bool FlitExchange::waits_for_peer() const noexcept {
  return sender_.unacknowledged() != 0 || credits_.starves();
}

void FlitExchange::poll(Instant now) noexcept {
  now_ = now;
  if (owed_since_ != kNever && now - owed_since_ >= ack_delay_) {
    tell_peer(true);
    sender_.publish(now);
    owed_since_ = kNever;
  }
  if (watch_.is_due(waits_for_peer(), now)) {
    if (send_control(FlitKind::kAck, kFlitAnswer)) {
      counters_.add(LinkCounter::kProbesSent);
      sender_.publish(now);
    } else {
      // Every slot waits behind a lost flit, so there is no slot for the question: repeat unasked.
      repeat_wanted_ = false;
      sender_.repeat(now);
    }
    watch_.asked(carrier_->keeps_all(), now);
  }
  if (now >= gauges_at_) [[unlikely]] {
    if (watch_.has_stalled(waits_for_peer(), now)) counters_.add(LinkCounter::kPeerStalled);
    credits_.refresh_gauges();
    gauges_at_ = now + kGaugeInterval;
  }
}

bool FlitExchange::prepare_sleep() noexcept {
  const bool quietly = sender_.unpublished() == 0 && owes_little();
  tell_peer(true);
  if (quietly && sender_.unpublished() != 0) sender_.publish_quietly(now_);
  sender_.publish(now_);
  if (!peer_is_watched()) watch_.rest();
  if (all_told()) owed_since_ = kNever;
  credits_.refresh_gauges();
  gauges_at_ = now_ + kGaugeInterval;
  return carrier_->prepare_sleep();
}

/// True if the peer can go on sending although it has not been told everything: few flits are unacknowledged,
/// and no lane with untold credit holds flits.
bool FlitExchange::owes_little() const noexcept {
  return !answer_now_ && sequence_.untold() < tell_at_ && !credits_.owes(tell_at_) &&
         !credits_.owes_of_used_lane();
}

/// False when the peer's silence means nothing: no lane waits for its credit, and the carrier keeps the few
/// unacknowledged flits. The peer may leave those unacknowledged without waking us (owes_little() on its
/// side).
bool FlitExchange::peer_is_watched() const noexcept {
  return credits_.starves() || sender_.unacknowledged() >= kFlitsPerAck || !carrier_->keeps_all();
}

void FlitExchange::finish_sleep() noexcept {
  if (carrier_ == nullptr) return;
  carrier_->finish_sleep();
  if (!peer_is_watched()) watch_.was_deaf();
}

Instant FlitExchange::deadline() const noexcept {
  Instant due = carrier_->deadline();
  // Flits sent, or refused for want of credit, since the last poll() are not yet watched.
  if (peer_is_watched()) due = std::min(due, watch_.deadline(waits_for_peer(), now_));
  return owed_since_ == kNever ? due : std::min(due, owed_since_ + ack_delay_);
}

}  // namespace weft::fabric
