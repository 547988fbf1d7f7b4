// adapter/transport/rnr_timer.h -- the 5-bit code with which a responder tells the requester how long to wait
// after an RNR NAK, with InfiniBand's values. The NAK carries the code in its cell number field, which names
// no cell in an RNR NAK.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace weft::adapter {

/// Waiting time by code, in units of 10 us.
inline constexpr std::array<uint32_t, 32> kRnrTimerUnits{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

[[nodiscard]] constexpr Duration rnr_delay(uint16_t code) noexcept {
  return std::chrono::microseconds(10) * kRnrTimerUnits[code % kRnrTimerUnits.size()];
}

/// The smallest code that waits at least `delay`; 0, the longest, when none does.
[[nodiscard]] constexpr uint16_t rnr_code(Duration delay) noexcept {
  constexpr auto kCodes = static_cast<uint16_t>(kRnrTimerUnits.size());
  for (uint16_t code = 1; code < kCodes; ++code) {
    if (rnr_delay(code) >= delay) return code;
  }
  return 0;
}

}  // namespace weft::adapter
