// base/token_bucket.h -- a rate limit: events per second, with a burst.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft {

/// Owner: one thread.
class TokenBucket {
 public:
  /// @param per_second  events per second on average; 0 lets nothing pass beyond the first burst
  /// @param burst       events at once
  TokenBucket(uint32_t per_second, uint32_t burst) noexcept
      : per_second_(per_second), full_(int64_t{burst} * kToken), level_(full_) {}

  /// True when one more event may happen at `now`, which never goes back.
  [[nodiscard]] bool take(Instant now) noexcept {
    const auto elapsed = std::min<Duration>(now - at_, kElapsedMax);
    at_ = now;
    level_ = std::min(full_, level_ + elapsed.count() * int64_t{per_second_});
    if (level_ < kToken) return false;
    level_ -= kToken;
    return true;
  }

 private:
  static constexpr int64_t kToken =
      1'000'000'000;  // one event = one second at one per second, in nanoseconds
  static constexpr Duration kElapsedMax = std::chrono::seconds(60);  // keeps the product in range

  uint32_t per_second_;
  int64_t full_;
  int64_t level_;
  Instant at_{};
};

}  // namespace weft
