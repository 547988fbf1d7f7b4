// fabric/carrier/hello_limiter.h -- limits the rate of HELLOs per key, or per address where there are no
// keys: 100 per second after a first burst of 512, for a machine whose ranks all start together. The table is
// bounded: a new owner replaces the one whose last HELLO is the oldest.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/token_bucket.h"

namespace weft::fabric {

/// A hundred HELLOs cost a switch about 2 ms. A test suite that starts one program after the other needs
/// about as many. At one per second (decisions section 4), every second rank of a machine would have to wait.
inline constexpr uint32_t kHellosPerSecond = 100;
/// Two for each port of the largest switch: an endnode repeats a HELLO that got no answer.
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
