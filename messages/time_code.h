// messages/time_code.h -- InfiniBand's encoding of a time in five bits: 4.096 us * 2^code.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/clock.h"

namespace weft {

inline constexpr Duration kTimeCodeUnit{4096};
inline constexpr uint8_t kTimeCodeMax = 31;

/// Time of a code up to kTimeCodeMax. Where code 0 has another meaning than 4.096 us, the field's user says
/// so.
[[nodiscard]] constexpr Duration time_of_code(uint8_t code) noexcept {
  return kTimeCodeUnit * (int64_t{1} << code);
}
/// The smallest code whose time is longer than `time`; kTimeCodeMax if there is none.
[[nodiscard]] constexpr uint8_t code_of_time(Duration time) noexcept {
  const auto units = static_cast<uint64_t>(std::max(time / kTimeCodeUnit, int64_t{1}));
  return static_cast<uint8_t>(std::min<int>(static_cast<int>(std::bit_width(units)), kTimeCodeMax));
}

}  // namespace weft
