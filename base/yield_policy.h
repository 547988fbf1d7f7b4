// base/yield_policy.h -- when a thread that waits by polling offers its core to others. If its peer runs on
// another core, a yield wastes two context switches (1.3 us each on the reference machine; 0.5 us if no other
// thread wants the core). If the peer needs this core, every poll before the yield is wasted. The kernel does
// not tell which, but the pattern repeats: a switch with one peer on its own core and one on another core
// waits for them in turn. So the outcomes of the latest waits predict the next one, as in a branch predictor.
// Times only; no clock, no thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace weft {

struct YieldConfig {
  Duration keep = std::chrono::microseconds(2);      // at most the time of two context switches
  Duration alone = std::chrono::nanoseconds(1000);   // a yield back sooner than this found no other thread
  Duration longest = std::chrono::microseconds(50);  // time without a yield, if there are idle turns
  // If work arrives within `soon` for `stream` waits in a row, it is a stream: yielding is then free, because
  // the next poll takes everything that has arrived. An acknowledgement and the answer behind it are not yet
  // a stream. With `soon` 0 nothing is.
  Duration soon{};
  int32_t stream = 4;
  // One wait in `try_every` keeps the core although the waits before it yielded at once. The number is odd,
  // so that each kind of wait gets its try when two or four kinds alternate.
  int32_t try_every = 17;
  int32_t stream_tries_after = 81;  // the first one after a stream
};

/// Owner: the thread that polls.
class YieldPolicy {
 public:
  constexpr explicit YieldPolicy(const YieldConfig& config = {}) noexcept : config_(config) {}

  /// Records that a poll at `now` found work.
  void worked(Instant now) noexcept {
    if (!waiting_) return;
    waiting_ = false;
    if (was_due_)
      return;  // the yield was due by time, so this wait does not show when the work would have
               // arrived
    const bool soon = !given_ && now - polls_from_ < config_.soon;
    soon_on_end_ = soon ? soon_on_end_ + 1 : 0;
    if (soon_on_end_ == config_.stream)
      yield_to_stream();
    else
      note_outcome(!given_);
  }
  /// Call if a poll at `now` found no work. True: yield, then call yielded(). False: poll again.
  [[nodiscard]] bool yields(Instant now) noexcept {
    if (!waiting_) begin(now);
    if (now >= keep_until_) return true;
    const bool due = now - yielded_at_ >= config_.longest;
    was_due_ |= due;
    return due;
  }
  /// Records a yield from `from` to `to`.
  void yielded(Instant from, Instant to) noexcept {
    polls_from_ = yielded_at_ = to;
    if (to - from < config_.alone)
      keep_until_ = to + config_.keep;
    else
      given_ = true;
  }

 private:
  void begin(Instant now) noexcept {
    waiting_ = true;
    given_ = was_due_ = false;
    tries_ = keeps_[history_] >= kKeepFrom;
    if (!tries_ && ++given_at_once_ >= config_.try_every) {
      given_at_once_ = 0;
      tries_ = true;
      keeps_ = all_keep();  // start over: the pattern of waits may have changed, and the next outcomes will
                            // show it
    }
    polls_from_ = now;
    keep_until_ = tries_ ? now + config_.keep : now;
  }
  void note_outcome(bool kept_well) noexcept {
    uint8_t& keeps = keeps_[history_];
    if (kept_well) {
      keeps = std::min<uint8_t>(keeps + 1, kKeepMost);
    } else if (tries_ && keeps > 0) {
      --keeps;
    }
    history_ = (history_ << 1 | (kept_well ? 1U : 0U)) % kHistories;
  }
  void yield_to_stream() noexcept {
    keeps_.fill(0);
    history_ = 0;
    soon_on_end_ = 0;
    given_at_once_ = config_.try_every - config_.stream_tries_after;
  }

  static constexpr uint32_t kHistories = 16;  // of four waits
  static constexpr uint8_t kKeepFrom = 2;
  static constexpr uint8_t kKeepMost = 3;

  YieldConfig config_;
  bool waiting_ = false;
  bool given_ = false;    // in this wait another thread has run on the core
  bool tries_ = false;    // this wait began with polls
  bool was_due_ = false;  // in this wait a yield was due because `longest` had passed
  uint32_t history_ = 0;  // bit n: the wait n before the latest one ended while the core was kept
  int32_t given_at_once_ = 0;
  int32_t soon_on_end_ = 0;  // consecutive waits that ended within `soon`
  Instant polls_from_{};     // beginning of the wait, or end of its latest yield
  Instant keep_until_{};
  Instant yielded_at_{};
  // For each history of the latest waits: the evidence that keeping the core pays.
  std::array<uint8_t, kHistories> keeps_ = all_keep();

  static constexpr std::array<uint8_t, kHistories> all_keep() noexcept {
    std::array<uint8_t, kHistories> out{};
    out.fill(kKeepFrom);
    return out;
  }
};

}  // namespace weft
