// hca/drive.h -- decides who drives an adapter: the threads that call it, or the helper thread while none
// does (docs/consumer.md). Times only; no thread, no clock, no descriptor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft::hca {

/// A caller that has made no call for this long no longer counts as driving the adapter.
inline constexpr Duration kCallerPause = std::chrono::milliseconds(2);
/// A caller that armed a queue looks at its queues once more and then waits where we do not see it. One
/// that goes on after this many turns polls.
inline constexpr uint32_t kTurnsAfterArm = 16;
/// Polls with no longer gap between them attend to what arrives; after so much of them the helper need not.
inline constexpr Duration kPollGap = std::chrono::microseconds(50);
inline constexpr Duration kPollRun = std::chrono::milliseconds(2);
/// A caller that leaves arrivals alone may come back with a request within this time of its last call.
inline constexpr Duration kCallerRest = std::chrono::milliseconds(100);

/// Owner: the holder of the device's lock.
class Drive {
 public:
  /// A caller has run a turn.
  void caller_turned(Instant now) noexcept {
    caller_at_ = now;
    if (waiting_ && ++turns_after_arm_ > kTurnsAfterArm) waiting_ = false;
  }
  /// The turn was a poll's, which looks for what has arrived; that of a post sees it by chance.
  void caller_polled(Instant now) noexcept {
    if (!unattended_) return;
    if (now - polled_at_ > kPollGap) polls_from_ = now;
    polled_at_ = now;
    if (now - polls_from_ >= kPollRun) unattended_ = false;
  }
  /// A caller is going to wait for an event.
  void caller_waits() noexcept {
    waiting_ = true;
    turns_after_arm_ = 0;
  }
  /// True when the helper has to drive at this time.
  [[nodiscard]] bool helper_drives(Instant now) const noexcept {
    return waiting_ || unattended_ || caller_at_ == Instant::min() || now - caller_at_ >= kCallerPause;
  }
  /// The helper has driven and found what no caller had taken: a program that waits by reading its memory,
  /// between posts, say. It would be late by kCallerPause each time, so the helper drives beside it from now
  /// on.
  void helper_found_work(Instant now) noexcept {
    if (waiting_ || unattended_ || caller_at_ == Instant::min()) return;
    unattended_ = true;
    polled_at_ = polls_from_ = now;
  }
  /// While callers drive: when to look whether they still do.
  [[nodiscard]] Instant look_again() const noexcept { return caller_at_ + kCallerPause; }

  /// How long the helper rests that would rest until `until`: beside callers that leave arrivals alone it is
  /// back before what they post next is due, so that no post has to kick it.
  [[nodiscard]] Instant rest(Instant now, Instant until) const noexcept {
    const bool called = unattended_ && now - caller_at_ < kCallerRest;
    return called ? std::min(until, now + kCallerPause) : until;
  }
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
  Instant polled_at_{};  // while unattended_: the last poll, and the first of those without a gap
  Instant polls_from_{};
  bool waiting_ = false;     // a thread waits for an event
  bool unattended_ = false;  // callers leave what arrives to the helper
};

}  // namespace weft::hca
