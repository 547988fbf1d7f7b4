// base/fnv.h -- FNV-1a, for hashes that must be the same in every run and need not resist an attacker.
#pragma once

#include <cstdint>
#include <string_view>

namespace weft {

inline constexpr uint64_t kFnvBasis = 0xCBF2'9CE4'8422'2325;
inline constexpr uint64_t kFnvPrime = 0x100'0000'01B3;

/// Continues `hash` over the bytes of `text`.
[[nodiscard]] constexpr uint64_t fnv1a(std::string_view text, uint64_t hash = kFnvBasis) noexcept {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * kFnvPrime;
  return hash;
}

}  // namespace weft
