// iou_driver/wait_budget.h -- how long the unit may wait for one endnode while the frames of its neighbours
// wait behind. An endnode that stands still uses it up in one wait; one that takes a frame now and then, by
// malice or for want of time, cannot stop its neighbours for more than a small part of the time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "messages/ids.h"

namespace weft::iou {

/// With several hosts: how long frames wait for one of them before they are dropped for that one. Equal to a
/// switch's wait for an output at standstill (docs/flow_control.md), so that a host that stops delays its
/// neighbours by less than 50 ms wherever its frames get stuck.
inline constexpr Duration kSlowHostMax = std::chrono::milliseconds(25);
/// What comes back of it with time: 50 ms in a second.
inline constexpr int kWaitRefillShare = 20;
/// What comes back with each byte that the endnode takes: 1 ms for 64 KiB. So an endnode that takes 64 MB/s
/// is always waited for, and the LAN of all hosts never runs at less than that because of it.
inline constexpr Duration kWaitPerByte = std::chrono::nanoseconds(16);
/// A shorter frame counts as one of this length, because its work is that of a frame: an endnode that takes
/// 61,000 frames of any length in a second is always waited for.
inline constexpr uint32_t kWaitFrameMin = 1024;

/// Owner: the unit's thread. All sessions of an endnode share one, also its later ones.
class WaitBudget {
 public:
  WaitBudget() = default;
  explicit WaitBudget(Lid lid) noexcept : lid_(lid) {}

  [[nodiscard]] Lid lid() const noexcept { return lid_; }
  /// When something last waited for the endnode.
  [[nodiscard]] Instant waited_at() const noexcept { return waited_at_; }

  /// The endnode has taken a frame.
  void add_taken(uint32_t bytes) noexcept { taken_bytes_ += std::max(bytes, kWaitFrameMin); }
  /// Something waits for the endnode in this turn. The time from `last_turn` to `now` counts if something
  /// waited in that turn too; several waits at the same time count once. False when nothing is left.
  [[nodiscard]] bool wait(Instant now, Instant last_turn) noexcept {
    if (now == waited_at_) return left_ > Duration{};
    left_ += kWaitPerByte * static_cast<int64_t>(taken_bytes_);
    left_ += waited_at_ == last_turn ? last_turn - now : (now - settled_at_) / kWaitRefillShare;
    left_ = std::clamp(left_, Duration{}, kSlowHostMax);
    taken_bytes_ = 0;
    settled_at_ = waited_at_ = now;
    return left_ > Duration{};
  }
  /// As wait(), for a wait that is not the endnode's fault.
  void wait_unblamed(Instant now) noexcept { waited_at_ = now; }

 private:
  Lid lid_{};
  Duration left_ = kSlowHostMax;
  Instant settled_at_{};
  Instant waited_at_{};
  uint64_t taken_bytes_ = 0;  // since settled_at_
};

}  // namespace weft::iou
