// base/crc32c_wide.h -- CRC32C of long inputs on CPUs that multiply four 128-bit pieces at once (AVX-512 with
// VPCLMULQDQ). For base/crc32c.cc only.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && defined(__SSE4_2__)
#define WEFT_CRC_WIDE 1

namespace weft::crc32c_wide {

inline constexpr size_t kBlockBytes = 64;
/// Below this three chains are faster: joining the pieces costs more than the shorter loop saves
/// (bench/crc_speed).
inline constexpr size_t kBytesMin = 320;

/// True if this CPU has these instructions.
[[nodiscard]] bool supported() noexcept;

/// The state (a CRC without its final inversion) continued over `bytes` bytes: a multiple of kBlockBytes, at
/// least kBytesMin.
[[nodiscard]] uint32_t extend(uint32_t state, const unsigned char* from, size_t bytes) noexcept;
/// The same, and copies them.
[[nodiscard]] uint32_t copy(uint32_t state, unsigned char* to, const unsigned char* from,
                            size_t bytes) noexcept;

}  // namespace weft::crc32c_wide

#endif
