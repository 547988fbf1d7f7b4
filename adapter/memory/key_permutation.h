// adapter/memory/key_permutation.h -- a keyed bijection over 28 bits. It maps (index, instance) to the part
// of a key that a peer cannot predict, and back, in constant time (LAY-STAG, O-36, decisions section 4).
#pragma once

#include <array>
#include <cstdint>

#include "base/rng.h"

namespace weft::adapter {

inline constexpr uint32_t kPermutedBits = 28;
inline constexpr uint32_t kPermutedMask = (1U << kPermutedBits) - 1;

/// Balanced Feistel network of two 14-bit halves with SipHash rounds as round function. Secret per adapter:
/// known keys do not reveal the next one. Owner: the adapter's thread.
class KeyPermutation {
 public:
  /// Draws 128 secret bits.
  explicit KeyPermutation(RandomSource& random) noexcept;
  /// @param plain 0..kPermutedMask. Inverse of backward().
  [[nodiscard]] uint32_t forward(uint32_t plain) const noexcept;
  /// @param permuted 0..kPermutedMask.
  [[nodiscard]] uint32_t backward(uint32_t permuted) const noexcept;

 private:
  [[nodiscard]] uint32_t mix(uint32_t round, uint32_t half) const noexcept;

  std::array<uint64_t, 4> start_{};  // SipHash state after taking in the secret
};

}  // namespace weft::adapter
