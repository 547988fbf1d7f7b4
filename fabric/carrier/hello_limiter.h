// fabric/carrier/hello_limiter.h -- HELLOs of one key, or without keys of one address: a hundred each second,
// after a first burst for a machine full of ranks that start together. The table is bounded; the owner heard
// longest ago makes room.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/token_bucket.h"

namespace weft::fabric {

/// A hundred HELLOs cost a switch some 2 ms. Programs that come one after the other, as in a test suite, need
/// about as many; decisions section 4 had one a second, which let every second rank of a machine wait.
inline constexpr uint32_t kHellosPerSecond = 100;
/// Two for each port of the largest switch: an endnode says HELLO again when its first one got no answer.
inline constexpr uint32_t kHelloBurst = 512;
inline constexpr size_t kHelloOwnersMax = 64;

/// Owner: one thread.
class HelloLimiter {
 public:
  /// True when one more HELLO of `owner` is within its rate. O(kHelloOwnersMax).
  [[nodiscard]] bool allow(std::string_view owner, Instant now) noexcept {
    Entry* oldest = entries_.data();
    for (Entry& entry : entries_) {
      if (entry.used && entry.owner() == owner.substr(0, entry.text.size())) {
        entry.last = now;
        return entry.bucket.take(now);
      }
      if (entry.last < oldest->last) oldest = &entry;
    }
    *oldest = Entry{};
    oldest->used = true;
    oldest->last = now;
    oldest->length = owner.copy(oldest->text.data(), oldest->text.size());
    return oldest->bucket.take(now);
  }

 private:
  struct Entry {
    [[nodiscard]] std::string_view owner() const noexcept { return {text.data(), length}; }
    bool used = false;
    std::array<char, 48> text{};
    size_t length = 0;
    Instant last = Instant::min();
    TokenBucket bucket{kHellosPerSecond, kHelloBurst};
  };
  std::array<Entry, kHelloOwnersMax> entries_;
};

}  // namespace weft::fabric
