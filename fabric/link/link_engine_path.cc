// How it works. Sending: claim() hands out the next carrier slot, commit() writes the header into it --
// number, newest acknowledgement, one lane's credit -- and every eighth flit or flush() publishes. A slot is
// written once; its position is kept by number, so that an acknowledgement can retire and a repeat request
// can resend from it. Receiving: each slot is checked once. The next number in order is accepted; an older
// one is a duplicate; a newer one, or damage, means a gap: the slots from the gap on are read again where the
// carrier keeps them, else the peer is asked. Unsequenced flits name the last data flit sent before them, so
// a lost tail is noticed too. What is owed to the peer rides on data flits; after eight flits without one, or
// when the link idles, it travels alone.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/prefetch.h"
#include "fabric/link/link_engine.h"
#include "messages/cell_flit.h"

namespace weft::fabric {
namespace {

/// Signed distance between a 16-bit number on the wire and a 64-bit one here.
int distance(uint16_t wire, uint64_t here) noexcept {
  return static_cast<int16_t>(static_cast<uint16_t>(wire - static_cast<uint16_t>(here)));
}

constexpr std::array<LinkCounter, static_cast<size_t>(FlitError::kCount)> kRefusals{
    LinkCounter::kCount,  // kNone: not a refusal
    LinkCounter::kTooShort, LinkCounter::kBadLength,   LinkCounter::kBadCrc,  LinkCounter::kBadCellCrc,
    LinkCounter::kBadKind,  LinkCounter::kBadReserved, LinkCounter::kBadLane, LinkCounter::kBadFlags};

}  // namespace

// ---- sending --------------------

std::byte* LinkEngine::next_slot(uint32_t reserve) noexcept {
  if (run_used_ == run_.count) {
    end_run();
    run_ = carrier_->claim(reserve);
    if (run_.count == 0) return nullptr;
    if (run_.count > 1) prefetch_to_write(run_.first + run_.stride, run_last_bytes_);
  }
  std::byte* slot = run_.first + size_t{run_used_} * run_.stride;
  if (run_used_ + kPrefetchSlots < run_.count)
    prefetch_to_write(slot + size_t{kPrefetchSlots} * run_.stride, run_last_bytes_);
  return slot;
}

void LinkEngine::finish_slot(uint32_t bytes) noexcept {
  ++run_used_;
  run_last_bytes_ = bytes;
  ++tx_position_;
  ++unpublished_;
}

void LinkEngine::end_run() noexcept {
  if (run_used_ != 0) carrier_->commit(run_used_, run_last_bytes_);
  run_ = {};
  run_used_ = 0;
}

void LinkEngine::publish_now(Instant now) noexcept {
  if (unpublished_ == 0 && !wake_due_) return;
  end_run();
  carrier_->publish(now);
  unpublished_ = 0;
  wake_due_ = false;
  count_burst();
}

/// In the middle of a turn, for a peer that spins: whether it sleeps is looked at once, by flush(). That look
/// has to wait until all stores before it have left, and those are to lines that the peer has just read.
void LinkEngine::publish_part() noexcept {
  end_run();
  carrier_->publish_quietly(now_);
  unpublished_ = 0;
  wake_due_ = true;
  count_burst();
}

void LinkEngine::count_burst() noexcept {
  if (published_ == sent_) return;
  published_ = sent_;
  counters_.add(LinkCounter::kBurstsSent);
}

std::byte* LinkEngine::claim(VirtualLane vl) noexcept {
  if (state_ != LinkState::kUp) return nullptr;
  if (vl != kVlManagement && lanes_[vl.value()].available() == 0) [[unlikely]] {
    if ((starved_lanes_ & lane_bit(vl)) == 0) lane_counters_[vl.value()].add(LaneCounter::kCreditStalls);
    starved_lanes_ |= lane_bit(vl);
    return nullptr;
  }
  std::byte* slot = sent_ - acknowledged_ < kWindow ? next_slot(kControlSlots) : nullptr;
  if (slot == nullptr) [[unlikely]] {
    counters_.add(LinkCounter::kSlotStalls);
    return nullptr;
  }
  return slot + kFlitHeaderBytes;
}

/// Inline, so that the header is put together in registers.
[[gnu::always_inline]] inline FlitFields LinkEngine::fields_to_send(FlitKind kind) noexcept {
  FlitFields fields;
  fields.kind = kind;
  fields.sequence = static_cast<uint16_t>(sent_);
  fields.acknowledged = static_cast<uint16_t>(received_);
  told_received_ = received_;
  const uint32_t later = untold_lanes_ & lanes_after_last_;
  const uint32_t candidates = later != 0 ? later : untold_lanes_;
  const uint32_t lane = candidates != 0 ? static_cast<uint32_t>(std::countr_zero(candidates)) : 0;
  lanes_after_last_ = ~((2U << lane) - 1);
  untold_lanes_ &= ~(1U << lane);
  fields.credit_vl = VirtualLane(static_cast<uint8_t>(lane));
  fields.credit = lanes_[lane].tell();
  return fields;
}

void LinkEngine::commit(const TxFlit& flit) noexcept {
  WEFT_DCHECK(state_ == LinkState::kUp && run_used_ < run_.count, "commit without claim");
  WEFT_DCHECK(flit.payload_bytes <= params_.flit_payload_bytes, "flit longer than the link carries");
  if (flit.vl != kVlManagement) lanes_[flit.vl.value()].spend();
  sent_position_[++sent_ % kWindow] = tx_position_;
  FlitFields fields = fields_to_send(FlitKind::kData);
  fields.vl = flit.vl;
  fields.flags = flit.flags;
  fields.payload_bytes = static_cast<uint16_t>(flit.payload_bytes);
  std::byte* slot = run_.first + size_t{run_used_} * run_.stride;
  if (profile_.whole_cell) {
    compose_cell_flit(slot, fields, flit.cell_crc);
  } else {
    compose_flit(slot, fields, false, 0);
  }
  finish_slot(kFlitHeaderBytes + flit.payload_bytes);
  if (unpublished_ >= publish_every_) publish_part();
}

/// A slot for a flit without data: one of those that data may use, else one of the reserve, and of that one
/// alone, so that the rest of the run does not fall to data.
std::byte* LinkEngine::control_slot() noexcept {
  if (std::byte* slot = next_slot(kControlSlots)) return slot;
  run_ = carrier_->claim(0);
  run_.count = std::min(run_.count, 1U);
  return run_.count != 0 ? run_.first : nullptr;
}

bool LinkEngine::send_control(FlitKind kind, uint8_t flags) noexcept {
  std::byte* slot = control_slot();
  if (slot == nullptr) return false;
  FlitFields fields = fields_to_send(kind);
  fields.flags = flags;
  compose_flit(slot, fields, profile_.whole_cell, 0);
  finish_slot(kFlitHeaderBytes);
  counters_.add(kind == FlitKind::kCredit ? LinkCounter::kCreditFlitsSent : LinkCounter::kAckFlitsSent);
  return true;
}

bool LinkEngine::lane_owes(uint64_t threshold) const noexcept {
  for (uint32_t left = untold_lanes_; left != 0; left &= left - 1) {
    if (lanes_[static_cast<size_t>(std::countr_zero(left))].untold() >= threshold) return true;
  }
  return false;
}

void LinkEngine::tell_peer(bool everything) noexcept {
  const uint64_t threshold = everything || answer_now_ ? 1 : tell_at_;
  bool acknowledge = received_ - told_received_ >= threshold;
  if (answer_now_) {
    answer_now_ = false;
    acknowledge = true;
    untold_lanes_ = 0;
    for (uint32_t i = 0; i < params_.lanes; ++i) {
      lanes_[i].forget_told();
      // A lane that was never used has nothing to tell; its bit would stay and never let the link rest.
      if (lanes_[i].untold() != 0) untold_lanes_ |= 1U << i;
    }
  }
  // Each flit tells one lane's credit, so one turn per lane is enough.
  for (uint32_t turn = 0; turn <= params_.lanes; ++turn) {
    if (!acknowledge && !lane_owes(threshold)) return;
    if (!send_control(acknowledge ? FlitKind::kAck : FlitKind::kCredit, 0)) return;
    acknowledge = false;
  }
}

void LinkEngine::serve_repeat() noexcept {
  repeat_wanted_ = false;
  publish_now(now_);
  if (sent_ == acknowledged_) return;
  counters_.add(LinkCounter::kRepeatsServed);
  carrier_->resend(sent_position_[(acknowledged_ + 1) % kWindow]);
}

void LinkEngine::flush(Instant now) noexcept {
  if (state_ != LinkState::kUp) return;
  now_ = now;
  tell_peer(false);
  publish_now(now);
  if (counted_sent_ != sent_) {
    counters_.add(LinkCounter::kFlitsSent, sent_ - counted_sent_);
    counted_sent_ = sent_;
  }
  if (received_ == told_received_ && untold_lanes_ == 0) {
    owed_since_ = kNever;
  } else if (owed_since_ == kNever) {
    owed_since_ = now;
  }
}

uint32_t LinkEngine::credits(VirtualLane vl) const noexcept {
  return vl == kVlManagement ? kCreditsPerLaneMax : lanes_[vl.value()].available();
}

// ---- receiving --------------------

std::span<const RxFlit> LinkEngine::receive() noexcept {
  if (state_ != LinkState::kUp) return {};
  const uint32_t first = rx_count_;
  const uint32_t count = carrier_->receive(std::span(arrived_).first(kFlitsPerReceiveMax - first));
  // As much as the flit before had, or, at first, one of the last burst: lines that are asked for and hold
  // nothing would go back and forth between the ends.
  const uint32_t like_last =
      kFlitHeaderBytes + static_cast<uint32_t>(rx_[first == 0 ? 0 : first - 1].payload.size());
  if (count > 1) prefetch_to_read(arrived_[1].bytes, std::min(arrived_[1].size, like_last));
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t soon = i + kPrefetchSlots;
    if (soon < count) prefetch_to_read(arrived_[soon].bytes, std::min(arrived_[soon].size, like_last));
    if (!take_slot(arrived_[i])) break;
  }
  if (count != 0) heard_at_ = now_;
  if (retire_due_) {
    retire_due_ = false;
    carrier_->retire(acknowledged_ == sent_ ? tx_position_ : sent_position_[(acknowledged_ + 1) % kWindow]);
  }
  if (repeat_wanted_) [[unlikely]]
    serve_repeat();
  if (rx_count_ != first) {
    counters_.add(LinkCounter::kFlitsReceived, rx_count_ - first);
  } else if (rx_count_ == 0 && count != 0) {
    carrier_->release(consumed_position_);
  }
  return std::span(rx_).subspan(first, rx_count_ - first);
}

void LinkEngine::release() noexcept {
  if (rx_count_ == 0) return;
  rx_count_ = 0;
  if (carrier_ != nullptr) carrier_->release(consumed_position_);
}

void LinkEngine::grant(VirtualLane vl, uint32_t flits) noexcept {
  if (vl == kVlManagement || state_ != LinkState::kUp) return;
  lanes_[vl.value()].grant(flits);
  untold_lanes_ |= lane_bit(vl);
}

bool LinkEngine::take_slot(const RxSlot& slot) noexcept {
  FlitView flit;
  if (!decode_cell_flit({slot.bytes, slot.size}, profile_, flit)) [[unlikely]] {
    const FlitError error = decode_flit({slot.bytes, slot.size}, profile_, flit);
    if (error != FlitError::kNone) [[unlikely]]
      return refuse(error, flit.fields, slot.position);
  }
  if (!absorb_news(flit.fields)) return false;
  return flit.fields.kind == FlitKind::kData ? take_data(flit, slot.position)
                                             : take_control(flit, slot.position);
}

bool LinkEngine::absorb_news(const FlitFields& fields) noexcept {
  const int ahead = distance(fields.acknowledged, acknowledged_);
  bool progress = false;
  if (ahead > 0) {
    if (static_cast<uint64_t>(ahead) > sent_ - acknowledged_) {
      fault(LinkCounter::kAckBeyondSent);
      return false;
    }
    acknowledged_ += static_cast<uint64_t>(ahead);
    retire_due_ = progress = true;
  }
  LaneCredit& lane = lanes_[fields.credit_vl.value()];
  if (!lane.absorb(fields.credit)) {
    fault(LinkCounter::kCreditBeyondSent);
    return false;
  }
  if ((starved_lanes_ & lane_bit(fields.credit_vl)) != 0 && lane.available() != 0) {
    starved_lanes_ &= ~lane_bit(fields.credit_vl);
    progress = true;
  }
  if (progress) {
    probe_at_ = kNever;
    probe_interval_ = timers_.probe_first;
  }
  return true;
}

[[gnu::always_inline]] inline bool LinkEngine::take_data(const FlitView& flit, uint64_t position) noexcept {
  const FlitFields& fields = flit.fields;
  const int ahead = distance(fields.sequence, received_ + 1);
  if (ahead < 0) {
    counters_.add(LinkCounter::kDuplicates);
    consumed_position_ = std::max(consumed_position_, position + 1);
    return true;
  }
  if (ahead > 0) {
    counters_.add(LinkCounter::kOutOfSequence);
    // Numbers that do not rise any more are a new round of repeats: the flit we miss was lost in it again.
    const bool new_round = ahead <= gap_ahead_;
    gap_ahead_ = ahead;
    return ask_repeat(new_round);
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

/// The next flit in order: what holds whether or not its cell is handed out.
[[gnu::always_inline]] inline bool LinkEngine::accept(const FlitFields& fields, uint64_t position) noexcept {
  if (fields.vl != kVlManagement && !lanes_[fields.vl.value()].arrive()) {
    fault(LinkCounter::kSentWithoutCredit);
    return false;
  }
  if (!fits_framing(fields)) {
    fault(LinkCounter::kBadFraming);
    return false;
  }
  ++received_;
  consumed_position_ = std::max(consumed_position_, position + 1);
  repeats_ = 0;
  gap_ahead_ = 0;
  repeat_asked_ = false;
  return true;
}

bool LinkEngine::fits_framing(const FlitFields& fields) noexcept {
  const uint32_t bit = lane_bit(fields.vl);
  const bool open = (open_lanes_ & bit) != 0;
  const bool head = (fields.flags & kFlitHead) != 0;
  if (head == open) return false;
  if ((fields.flags & kFlitTail) != 0) {
    open_lanes_ &= ~bit;
  } else {
    open_lanes_ |= bit;
  }
  return true;
}

bool LinkEngine::take_control(const FlitView& flit, uint64_t position) noexcept {
  const FlitFields& fields = flit.fields;
  const bool answer = (fields.flags & kFlitAnswer) != 0;
  counters_.add(fields.kind == FlitKind::kCredit ? LinkCounter::kCreditFlitsReceived
                                                 : LinkCounter::kAckFlitsReceived);
  repeat_wanted_ |= fields.kind == FlitKind::kRepeat;
  answer_now_ |= answer;
  if (answer && owed_since_ == kNever) owed_since_ = now_;
  if (distance(fields.sequence, received_) > 0) return ask_repeat(answer);
  consumed_position_ = std::max(consumed_position_, position + 1);
  return true;
}

bool LinkEngine::refuse(FlitError error, const FlitFields& fields, uint64_t position) noexcept {
  const LinkCounter reason = kRefusals[static_cast<size_t>(error)];
  if (is_damage(error)) {
    counters_.add(reason);
    if (error == FlitError::kCellCrc && repeats_ >= kFlitRepeatsMax &&
        distance(fields.sequence, received_ + 1) == 0) {
      return drop_torn(fields, position);
    }
    return ask_repeat(false);
  }
  fault(reason);
  return false;
}

/// The sender vouches for the flit and not for the cell in it: a switch forwards what a hostile endnode
/// changed while it was copied, and no repeat makes it whole. The link is good; the cell is lost as if its
/// sender had not sent it, and its credit goes back.
bool LinkEngine::drop_torn(const FlitFields& fields, uint64_t position) noexcept {
  if (!absorb_news(fields) || !accept(fields, position)) return false;
  counters_.add(LinkCounter::kTornCells);
  grant(fields.vl, 1);
  return true;
}

bool LinkEngine::ask_repeat(bool again) noexcept {
  const bool by_carrier = carrier_->reread(consumed_position_);
  if (!by_carrier && repeat_asked_ && !again) return true;
  if (++repeats_ > kFlitRepeatsMax) {
    fault(LinkCounter::kRepeatsExhausted);
    return false;
  }
  if (by_carrier) {
    counters_.add(LinkCounter::kRereads);
    return false;
  }
  repeat_asked_ = true;
  if (send_control(FlitKind::kRepeat, 0)) counters_.add(LinkCounter::kRepeatsRequested);
  return true;
}

void LinkEngine::fault(LinkCounter reason) noexcept {
  counters_.add(reason);
  state_ = LinkState::kFaulty;
}

}  // namespace weft::fabric
