// base/crc32c.h -- CRC32C (Castagnoli, reflected, initial and final XOR all ones), the one checksum of cells,
// packets and flits (decisions 1.11). CPU instruction where present, table elsewhere. Headers that are
// already in registers are hashed inline with crc32c_words(); payloads go through crc32c_extend() or, when
// they are copied anyway, through crc32c_copy(): one pass for both (decisions P1, P2).
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#if defined(__x86_64__) && defined(__SSE4_2__)
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace weft {

/// CRC of `data` continued from `crc`, the CRC of what went before (0 for nothing): header and payload are
/// hashed without joining them.
[[nodiscard]] uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes) noexcept;

[[nodiscard]] inline uint32_t crc32c(std::span<const std::byte> data) noexcept {
  return crc32c_extend(0, data.data(), data.size());
}

/// Copies `bytes` bytes and returns the CRC continued over them: one pass over the payload (decisions P1).
/// Each byte is read once, so the CRC is that of the copy even if another thread changes the source
/// meanwhile. The ranges must not overlap.
[[nodiscard]] uint32_t crc32c_copy(uint32_t crc, void* to, const void* from, size_t bytes) noexcept;

template <class T>
concept Word64 = std::unsigned_integral<T> && sizeof(T) == sizeof(uint64_t);

/// CRC continued over words given by value, each as it would lie in memory: a header composed in registers is
/// hashed without being stored first. Inline; three cycles per word. A cell header is four words, the 12
/// hashed bytes of a flit header and the cell's CRC behind them are two.
template <Word64... Words>
[[nodiscard]] inline uint32_t crc32c_words(uint32_t crc, Words... words) noexcept {
#if defined(__x86_64__) && defined(__SSE4_2__)
  uint64_t state = static_cast<uint32_t>(~crc);
  ((state = _mm_crc32_u64(state, words)), ...);
  return ~static_cast<uint32_t>(state);
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
  uint32_t state = ~crc;
  ((state = __crc32cd(state, words)), ...);
  return ~state;
#else
  const std::array<uint64_t, sizeof...(Words)> stored{words...};
  return crc32c_extend(crc, stored.data(), sizeof stored);
#endif
}

/// Likewise over one word of 32 bits.
[[nodiscard]] inline uint32_t crc32c_half(uint32_t crc, uint32_t half) noexcept {
#if defined(__x86_64__) && defined(__SSE4_2__)
  return ~_mm_crc32_u32(~crc, half);
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
  return ~__crc32cw(~crc, half);
#else
  return crc32c_extend(crc, &half, sizeof half);
#endif
}

/// Two 32-bit halves as one word that has `first` at the lower address.
[[nodiscard]] constexpr uint64_t word_of(uint32_t first, uint32_t second) noexcept {
  return std::endian::native == std::endian::little ? uint64_t{second} << 32 | first
                                                    : uint64_t{first} << 32 | second;
}

/// CRC of A followed by B from crc(A), crc(B) and B's length, in O(log length).
[[nodiscard]] uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept;

/// crc32c_copy() of CPUs that cannot multiply four pieces at once; for tests and measurements.
[[nodiscard]] uint32_t crc32c_copy_narrow(uint32_t crc, void* to, const void* from, size_t bytes) noexcept;

/// The portable version, for tests and for CPUs without the instruction.
[[nodiscard]] uint32_t crc32c_extend_table(uint32_t crc, const void* data, size_t bytes) noexcept;

}  // namespace weft
