// hca/progress_policy.h -- decides which threads drive an adapter: those that call it, or the helper thread
// while none does (docs/consumer.md). Works on times only; has no thread, clock or descriptor.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft::hca {

/// A caller that has made no call for this long no longer counts as driving the adapter.
inline constexpr Duration kCallerPause = std::chrono::milliseconds(2);
/// A caller that has armed a queue usually polls once more and then waits in the kernel, which the adapter
/// does not see. A caller that polls more often than this after arming does not wait. Posts say nothing:
/// other threads make them while one waits.
inline constexpr uint32_t kPollsAfterArm = 16;
/// Polls at most kPollGap apart count as one run. After a run of kPollRun the callers attend to arrivals, and
/// the helper stops driving beside them.
inline constexpr Duration kPollGap = std::chrono::microseconds(50);
inline constexpr Duration kPollRun = std::chrono::milliseconds(2);
/// If callers leave arrivals to the helper, they count as about to post again for this long after their last
/// call: the helper then sleeps for at most kCallerPause (rest()).
inline constexpr Duration kCallerRest = std::chrono::milliseconds(100);

/// Owner: the holder of the device's lock.
class ProgressPolicy {
 public:
  /// A caller has run a turn.
  void caller_turned(Instant now) noexcept { caller_at_ = now; }
  /// The turn belongs to a poll, which looks for arrivals on purpose; a post sees them only by chance.
  void caller_polled(Instant now) noexcept {
    if (waiting_ && ++polls_after_arm_ > kPollsAfterArm) waiting_ = false;
    if (!unattended_) return;
    if (now - polled_at_ > kPollGap) polls_from_ = now;
    polled_at_ = now;
    if (now - polls_from_ >= kPollRun) unattended_ = false;
  }
  /// A caller is about to wait for an event.
  void caller_waits() noexcept {
    waiting_ = true;
    polls_after_arm_ = 0;
  }
  /// True when the helper must drive at time `now`.
  [[nodiscard]] bool helper_drives(Instant now) const noexcept {
    return waiting_ || unattended_ || caller_at_ == Instant::min() || now - caller_at_ >= kCallerPause;
  }
  /// The calls of callers decide whether the helper goes on beside them: each tells its time.
  [[nodiscard]] bool watches_callers() const noexcept { return waiting_ || unattended_; }
  /// The helper has driven and found work that no caller had taken, for example because the program reads its
  /// memory between posts instead of polling. Each arrival would be late by kCallerPause, so from now on the
  /// helper drives beside the callers.
  void helper_found_work(Instant now) noexcept {
    if (waiting_ || unattended_ || caller_at_ == Instant::min()) return;
    unattended_ = true;
    polled_at_ = polls_from_ = now;
  }
  /// While callers drive: when the helper has to check that they still do.
  [[nodiscard]] Instant look_again() const noexcept { return caller_at_ + kCallerPause; }

  /// When the helper must wake that has nothing to do before `until`. While callers leave arrivals to it, it
  /// wakes within kCallerPause, so that no post of theirs has to kick it.
  [[nodiscard]] Instant rest(Instant now, Instant until) const noexcept {
    const bool called = unattended_ && now - caller_at_ < kCallerRest;
    return called ? std::min(until, now + kCallerPause) : until;
  }
  /// The helper sleeps until `until` or until it is kicked.
  void helper_rests(Instant until) noexcept { rests_until_ = until; }
  /// The helper has woken or is at work.
  void helper_wakes() noexcept { rests_until_ = Instant::min(); }
  /// True when the helper sleeps longer than kCallerPause from now. The caller must then kick it unless the
  /// adapter has nothing to do before the helper wakes.
  [[nodiscard]] bool sleeps_long(Instant now) const noexcept { return rests_until_ > now + kCallerPause; }
  [[nodiscard]] Instant rests_until() const noexcept { return rests_until_; }

 private:
  Instant caller_at_ = Instant::min();  // last turn of a caller
  Instant rests_until_ = Instant::min();
  uint32_t polls_after_arm_ = 0;
  Instant polled_at_{};  // while unattended_: the last poll, and the first poll of the present run
  Instant polls_from_{};
  bool waiting_ = false;     // a thread waits for an event
  bool unattended_ = false;  // callers leave arrivals to the helper
};

}  // namespace weft::hca
