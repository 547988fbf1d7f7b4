#include "fabric/link/link_credits.h"

#include <fmt/format.h>

namespace weft::fabric {

void LinkCredits::reset(uint32_t lanes, uint32_t capacity) noexcept {
  used_lanes_ = lanes;
  for (LaneCredit& lane : lanes_) lane.reset(capacity);
  starved_ = untold_ = 0;
}

void LinkCredits::starve(VirtualLane vl) noexcept {
  if ((starved_ & lane_bit(vl)) == 0) counters_[vl.value()].add(LaneCounter::kCreditStalls);
  starved_ |= lane_bit(vl);
}

bool LinkCredits::owes(uint64_t flits) const noexcept {
  for (uint32_t left = untold_; left != 0; left &= left - 1) {
    if (lanes_[static_cast<size_t>(std::countr_zero(left))].untold() >= flits) return true;
  }
  return false;
}

bool LinkCredits::owes_of_used_lane() const noexcept {
  for (uint32_t left = untold_; left != 0; left &= left - 1) {
    if (lanes_[static_cast<size_t>(std::countr_zero(left))].held() != 0) return true;
  }
  return false;
}

void LinkCredits::tell_again() noexcept {
  untold_ = 0;
  for (uint32_t i = 0; i < used_lanes_; ++i) {
    lanes_[i].forget_told();
    // A lane that was never used has nothing to tell. Its bit would never be cleared and would keep the link
    // from idling.
    if (lanes_[i].untold() != 0) untold_ |= 1U << i;
  }
}

void LinkCredits::refresh_gauges() noexcept {
  for (uint32_t i = 0; i < used_lanes_; ++i) {
    counters_[i].set(LaneCounter::kFlitsSent, lanes_[i].sent());
    counters_[i].set(LaneCounter::kFlitsReceived, lanes_[i].arrived());
    counters_[i].set(LaneCounter::kCredits, lanes_[i].available());
    counters_[i].set(LaneCounter::kHeld, lanes_[i].held());
  }
}

void LinkCredits::clear_gauges() noexcept {
  for (CounterSet<LaneCounter>& lane : counters_) {
    for (const LaneCounter gauge :
         {LaneCounter::kFlitsSent, LaneCounter::kFlitsReceived, LaneCounter::kCredits, LaneCounter::kHeld})
      lane.set(gauge, 0);
  }
}

void LinkCredits::publish(StatsPage& page, std::string_view prefix) {
  for (size_t i = 0; i < counters_.size(); ++i)
    page.publish(fmt::format("{}.vl.{}", prefix, i), counters_[i]);
}

}  // namespace weft::fabric
