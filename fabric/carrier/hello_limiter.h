// fabric/carrier/hello_limiter.h -- HELLOs per peer address: one each second, after a first burst for a
// machine full of nodes that start together (decisions section 4). The table is bounded; the address heard
// longest ago makes room.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/token_bucket.h"

namespace weft::fabric {

inline constexpr uint32_t kHellosPerSecond = 1;  // per address
inline constexpr uint32_t kHelloBurst = 16;
inline constexpr size_t kHelloAddressesMax = 64;

/// Owner: one thread.
class HelloLimiter {
 public:
  /// True when one more HELLO of `address` is within its rate. O(kHelloAddressesMax).
  [[nodiscard]] bool allow(std::string_view address, Instant now) noexcept {
    Entry* oldest = entries_.data();
    for (Entry& entry : entries_) {
      if (entry.used && entry.address() == address.substr(0, entry.text.size())) {
        entry.last = now;
        return entry.bucket.take(now);
      }
      if (entry.last < oldest->last) oldest = &entry;
    }
    *oldest = Entry{};
    oldest->used = true;
    oldest->last = now;
    oldest->length = address.copy(oldest->text.data(), oldest->text.size());
    return oldest->bucket.take(now);
  }

 private:
  struct Entry {
    [[nodiscard]] std::string_view address() const noexcept { return {text.data(), length}; }
    bool used = false;
    std::array<char, 48> text{};
    size_t length = 0;
    Instant last = Instant::min();
    TokenBucket bucket{kHellosPerSecond, kHelloBurst};
  };
  std::array<Entry, kHelloAddressesMax> entries_;
};

}  // namespace weft::fabric
