// fabric/link/link_credits.h -- the credits of all lanes of one link end (SAN-VL-03), and the choice of the
// lane whose total the next flit tells: a flit has room for one. docs/flow_control.md.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "base/stats_page.h"
#include "fabric/link/credit.h"
#include "fabric/link/limits.h"
#include "fabric/link/link_counters.h"
#include "messages/ids.h"

namespace weft::fabric {

/// Lane 15 has no credits. For it, ask() and arrive() return true, and spend() and grant() do nothing.
/// absorb() takes data lanes only. Owner: the link's thread.
class LinkCredits {
 public:
  /// A link comes up with `lanes` data lanes; each side has `capacity` flit buffers per lane.
  void reset(uint32_t lanes, uint32_t capacity) noexcept;

  // ---- sending half --------------------
  /// Flits that may be sent now.
  [[nodiscard]] uint32_t available(VirtualLane vl) const noexcept {
    return vl == kVlManagement ? kCreditsPerLaneMax : lanes_[vl.value()].available();
  }
  /// True when one more flit may be sent. Otherwise the lane starves until relieved().
  [[nodiscard]] bool ask(VirtualLane vl) noexcept {
    if (vl == kVlManagement || lanes_[vl.value()].available() != 0) [[likely]]
      return true;
    starve(vl);
    return false;
  }
  void spend(VirtualLane vl) noexcept {
    if (vl != kVlManagement) lanes_[vl.value()].spend();
  }
  /// Takes the peer's total of a data lane. False when the total exceeds the flits sent.
  [[nodiscard]] bool absorb(VirtualLane vl, uint16_t total) noexcept {
    return lanes_[vl.value()].absorb(total);
  }
  /// True once, when a starved lane has credit again.
  [[nodiscard]] bool relieved(VirtualLane vl) noexcept {
    if ((starved_ & lane_bit(vl)) == 0 || lanes_[vl.value()].available() == 0) return false;
    starved_ &= ~lane_bit(vl);
    return true;
  }
  [[nodiscard]] bool starves() const noexcept { return starved_ != 0; }

  // ---- receiving half --------------------
  /// A flit came in. False when the peer had no credit for it.
  [[nodiscard]] bool arrive(VirtualLane vl) noexcept {
    return vl == kVlManagement || lanes_[vl.value()].arrive();
  }
  /// `flits` buffers of a lane are free again.
  void grant(VirtualLane vl, uint32_t flits) noexcept {
    if (vl == kVlManagement) return;
    lanes_[vl.value()].grant(flits);
    untold_ |= lane_bit(vl);
  }

  // ---- what the peer is told --------------------
  struct Total {
    VirtualLane vl{};
    uint16_t flits = 0;  // given back since the link came up, modulo 2^16
  };
  /// The total for the next flit; lanes with untold credit take turns. Inline, because the value goes into a
  /// header in registers.
  [[nodiscard, gnu::always_inline]] Total tell() noexcept {
    const uint32_t later = untold_ & after_last_;
    const uint32_t candidates = later != 0 ? later : untold_;
    const uint32_t lane = candidates != 0 ? static_cast<uint32_t>(std::countr_zero(candidates)) : 0;
    after_last_ = ~((2U << lane) - 1);
    untold_ &= ~(1U << lane);
    return {VirtualLane(static_cast<uint8_t>(lane)), lanes_[lane].tell()};
  }
  [[nodiscard]] bool all_told() const noexcept { return untold_ == 0; }
  /// True when a lane has at least `flits` flits to tell of.
  [[nodiscard]] bool owes(uint64_t flits) const noexcept;
  /// True when a lane has untold credit and also holds flits. Its peer may run out of credit.
  [[nodiscard]] bool owes_of_used_lane() const noexcept;
  /// The peer may have missed totals: tell all of them again.
  void tell_again() noexcept;

  // ---- for operators and tests --------------------
  [[nodiscard]] const LaneCredit& lane(VirtualLane vl) const noexcept { return lanes_[vl.value()]; }
  void refresh_gauges() noexcept;
  /// The link is down: no lane has sent, received, credit or flits held.
  void clear_gauges() noexcept;
  /// Publishes the counters as `prefix.vl.N.NAME`.
  void publish(StatsPage& page, std::string_view prefix);

 private:
  [[gnu::cold]] void starve(VirtualLane vl) noexcept;

  // Bits per lane.
  uint32_t starved_ = 0;     // lanes that wanted to send and had no credit
  uint32_t untold_ = 0;      // lanes with untold credit
  uint32_t after_last_ = 0;  // lanes above the one that was told last
  uint32_t used_lanes_ = 0;  // number of data lanes of the link, not bits
  std::array<LaneCredit, kVlCount> lanes_{};
  std::array<CounterSet<LaneCounter>, kVlCount> counters_{};
};

}  // namespace weft::fabric
