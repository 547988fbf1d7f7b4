// base/spin_policy.h -- whether a loop that has nothing to do yields or sleeps. A wake-up across cores costs
// 25 us, so while traffic flows a loop spins a while before it sleeps (decisions 5.5): traffic is work that
// has gone on for some time, not the one message or the timer that an idle fabric has twice a second. A yield
// that comes back late says that somebody needs the core. Times only; no clock, no thread.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace weft {

struct SpinConfig {
  Duration spin = std::chrono::milliseconds(2);  // after the last work of traffic
  // Work that has gone on for so long is traffic, and stays it until a pause as long: one late packet among
  // many, for which the loop has slept already, does not make the next ones wait for a wake-up.
  Duration traffic = std::chrono::milliseconds(8);
  Duration yield_late = std::chrono::microseconds(50);  // a yield longer than this shortens the window
};

/// Owner: the thread whose loop it is.
class SpinPolicy {
 public:
  explicit SpinPolicy(const SpinConfig& config = {}) noexcept : config_(config) {}

  /// A turn at `now` found work.
  void worked(Instant now) noexcept {
    if (busy_from_ == kNever || now - worked_at_ >= config_.traffic) busy_from_ = now;
    worked_at_ = now;
    idle_from_ = kNever;
  }
  /// A turn at `now` found none. True: yield, and tell yielded(). False: sleep.
  [[nodiscard]] bool yields(Instant now) noexcept {
    if (idle_from_ == kNever) {
      // The first idle turn also shows how long the turn before it was.
      idle_from_ = now;
      penalty_ = {};
    }
    const bool traffic = busy_from_ != kNever && worked_at_ - busy_from_ >= config_.traffic;
    return traffic && now - idle_from_ + penalty_ < config_.spin;
  }
  /// The yield that began at `from` came back at `to`. @return whether that was late
  bool yielded(Instant from, Instant to) noexcept {
    const Duration away = to - from;
    if (away <= config_.yield_late) return false;
    penalty_ += away * 4;
    return true;
  }

 private:
  SpinConfig config_;
  Instant busy_from_ = kNever;  // first work after a pause of at least `traffic`
  Instant worked_at_ = kNever;  // the last work
  Instant idle_from_ = kNever;  // when work ran out
  Duration penalty_{};          // of late yields since idle_from_
};

}  // namespace weft
