// base/crc32c_few.h -- CRC32C for inputs that are mostly short: the cell of a small message and its data.
// Short inputs are hashed inline by a simple loop; longer ones go to base/crc32c.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.h"

namespace weft {

/// From this length on, several chains side by side are faster than one (bench/crc_speed).
inline constexpr size_t kCrcFewBytes = 72;

/// crc32c_extend().
[[nodiscard, gnu::always_inline]] inline uint32_t crc32c_of_few(uint32_t crc, const std::byte* data,
                                                                size_t bytes) noexcept {
  if (bytes < kCrcFewBytes) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), data += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, data, sizeof word);
      crc = crc32c_words(crc, word);
    }
    if (bytes == sizeof(uint32_t)) {
      uint32_t half;
      std::memcpy(&half, data, sizeof half);
      return crc32c_half(crc, half);
    }
  }
  return bytes == 0 ? crc : crc32c_extend(crc, data, bytes);
}

/// crc32c_copy(). Inlined in every build: the source or destination may be unmapped, and only the caller is
/// compiled so that the fault handler can leave it by an exception (adapter/memory/guarded_copy.cc).
[[nodiscard, gnu::always_inline]] inline uint32_t crc32c_copy_of_few(uint32_t crc, std::byte* to,
                                                                     const std::byte* from, size_t bytes) {
  if (bytes < kCrcFewBytes) {
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, from, sizeof word);
      std::memcpy(to, &word, sizeof word);
      crc = crc32c_words(crc, word);
      from += sizeof word;
      to += sizeof word;
    }
  }
  return bytes == 0 ? crc : crc32c_copy(crc, to, from, bytes);
}

}  // namespace weft
