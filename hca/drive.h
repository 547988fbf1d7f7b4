// hca/drive.h -- decides who drives an adapter: the threads that call it, or the helper thread while none
// does (docs/consumer.md). Times only; no thread, no clock, no descriptor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft::hca {

/// Callers that have been silent for so long no longer drive.
inline constexpr Duration kCallerPause = std::chrono::milliseconds(2);
/// A caller that armed a queue looks at its queues once more and then waits where we do not see it. One
/// that goes on after this many turns polls.
inline constexpr uint32_t kTurnsAfterArm = 16;

/// Owner: whoever holds the device's lock.
class Drive {
 public:
  /// A caller has run a turn.
  void caller_turned(Instant now) noexcept {
    caller_at_ = now;
    if (waiting_ && ++turns_after_arm_ > kTurnsAfterArm) waiting_ = false;
  }
  /// A caller is going to wait for an event.
  void caller_waits() noexcept {
    waiting_ = true;
    turns_after_arm_ = 0;
  }
  /// True when the helper has to drive at this time.
  [[nodiscard]] bool helper_drives(Instant now) const noexcept {
    return waiting_ || caller_at_ == Instant::min() || now - caller_at_ >= kCallerPause;
  }
  /// While callers drive: when to look whether they still do.
  [[nodiscard]] Instant look_again() const noexcept { return caller_at_ + kCallerPause; }

  /// The helper rests until then or until it is kicked.
  void helper_rests(Instant until) noexcept { rests_until_ = until; }
  /// The helper has been woken or is at work.
  void helper_wakes() noexcept { rests_until_ = Instant::min(); }
  /// True when the helper would look too late by itself at what callers leave now: it must be kicked unless
  /// nothing is left to do before it wakes.
  [[nodiscard]] bool sleeps_long(Instant now) const noexcept { return rests_until_ > now + kCallerPause; }
  [[nodiscard]] Instant rests_until() const noexcept { return rests_until_; }

 private:
  Instant caller_at_ = Instant::min();  // last turn of a caller
  Instant rests_until_ = Instant::min();
  uint32_t turns_after_arm_ = 0;
  bool waiting_ = false;  // somebody waits for an event
};

}  // namespace weft::hca
