// messages/time_code.h -- InfiniBand's way to say a time in five bits: 4.096 us * 2^code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/clock.h"

namespace weft {

inline constexpr Duration kTimeCodeUnit{4096};
inline constexpr uint8_t kTimeCodeMax = 31;

/// Of codes up to kTimeCodeMax. What code 0 means beside 4.096 us is said where it is used.
[[nodiscard]] constexpr Duration time_of_code(uint8_t code) noexcept {
  return kTimeCodeUnit * (int64_t{1} << code);
}
/// The least code that stands for more than `time`, as far as there is one.
[[nodiscard]] constexpr uint8_t code_of_time(Duration time) noexcept {
  const auto units = static_cast<uint64_t>(std::max(time / kTimeCodeUnit, int64_t{1}));
  return static_cast<uint8_t>(std::min<int>(static_cast<int>(std::bit_width(units)), kTimeCodeMax));
}

}  // namespace weft
