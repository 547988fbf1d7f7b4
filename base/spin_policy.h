// base/spin_policy.h -- whether a loop that has nothing to do yields or sleeps. A wake-up across cores costs
// 25 us, so while traffic flows a loop spins before it sleeps (decisions 5.5). Traffic means work in half of
// the last 16 milliseconds. The messages and timers that an idle session has twice a second are no traffic,
// nor are those of sixty such sessions at their switch, which come every few milliseconds. A yield that comes
// back late means that another thread needs the core. If every yield does, a thread that never yields has the
// core, and sleeping brings us back sooner than the end of its time slice. A turn of traffic that moved
// little counts as the beginning of a wait: the receiver of that traffic may need this core, and an idle turn
// would delay it. YieldPolicy (base/yield_policy.h) decides whether a loop that does not sleep yields or
// polls again. Times only; no clock, no thread.
#pragma once

#include <bit>
#include <cstdint>

#include "base/clock.h"

namespace weft {

struct SpinConfig {
  Duration spin = std::chrono::milliseconds(2);  // after the last work of traffic
  // Work in at least this many of the last 16 spans of a millisecond (2^20 ns) is traffic. A single late
  // packet, for which the loop has slept already, does not make the packets behind it wait for a wake-up.
  int busy_spans = 8;
  Duration yield_late = std::chrono::microseconds(50);  // a yield longer than this shortens the window
  // A yield at least this long cost a time slice. After `lost_most` consecutive ones that were followed by
  // little work, the loop stops yielding for `rest`. A stream makes up for a lost slice by its next burst.
  Duration yield_lost = std::chrono::microseconds(500);
  int lost_most = 3;
  int lost_apart = 10;  // a lost yield later than this many times its length begins a new series
  int little = 8;       // pieces of work per turn; a turn with more belongs to a stream, which loses nothing
                        // by one idle turn
  Duration rest = std::chrono::milliseconds(100);
};

/// Owner: the thread whose loop it is.
class SpinPolicy {
 public:
  explicit SpinPolicy(const SpinConfig& config = {}) noexcept : config_(config) {}

  /// Records that a turn at `now` found `work` pieces of work.
  void worked(Instant now, int work) noexcept {
    if (lost_) {
      lost_ = false;
      lost_on_end_ = work <= config_.little ? lost_on_end_ + 1 : 0;
      if (lost_on_end_ == config_.lost_most) {
        lost_on_end_ = 0;
        rests_until_ = now + config_.rest;
      }
    }
    const int64_t span = now.time_since_epoch().count() >> 20;
    const auto later = static_cast<uint64_t>(span - span_);
    spans_ = static_cast<uint16_t>(later >= 16 ? 1U : uint32_t{spans_} << later | 1U);
    span_ = span;
    idle_from_ = kNever;
  }
  /// Call after worked() of the same turn. True: the turn ends like an idle one, but without sleep.
  [[nodiscard]] bool yields_at_once(Instant now, int work) const noexcept {
    return work <= config_.little && traffic() && now >= rests_until_;
  }
  /// Call if a turn at `now` found no work. True: go on, and after a yield call yielded(). False: sleep.
  [[nodiscard]] bool yields(Instant now) noexcept {
    if (idle_from_ == kNever) {
      // The first idle turn also measures how long the turn before it took.
      idle_from_ = now;
      penalty_ = {};
    }
    return traffic() && now >= rests_until_ && now - idle_from_ + penalty_ < config_.spin;
  }
  /// Records a yield from `from` to `to`. @return true if it came back late
  bool yielded(Instant from, Instant to) noexcept {
    const Duration away = to - from;
    lost_ = away >= config_.yield_lost;
    if (!lost_ || from - lost_at_ > away * config_.lost_apart) lost_on_end_ = 0;
    if (lost_) lost_at_ = to;
    if (away <= config_.yield_late) return false;
    penalty_ += away * 4;
    return true;
  }

 private:
  [[nodiscard]] bool traffic() const noexcept { return std::popcount(spans_) >= config_.busy_spans; }

  SpinConfig config_;
  int64_t span_ = 0;            // millisecond span of the last work
  uint16_t spans_ = 0;          // bit n: there was work n spans before it
  Instant idle_from_ = kNever;  // time of the first idle turn after work
  Duration penalty_{};          // total delay by late yields after idle_from_
  Instant rests_until_ = Instant::min();
  Instant lost_at_{};  // when the latest lost yield came back
  int lost_on_end_ = 0;
  bool lost_ = false;  // the latest yield was lost
};

}  // namespace weft
