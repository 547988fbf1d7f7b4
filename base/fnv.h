// base/fnv.h -- FNV-1a, for numbers that are to be the same from run to run and need not withstand anybody.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

inline constexpr uint64_t kFnvBasis = 0xCBF2'9CE4'8422'2325;
inline constexpr uint64_t kFnvPrime = 0x100'0000'01B3;

/// `hash` with the bytes of `text` behind those that it stands for already.
[[nodiscard]] constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = kFnvBasis) noexcept {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * kFnvPrime;
  return hash;
}

}  // namespace weft
