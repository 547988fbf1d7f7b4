// base/crc32c_few.h -- CRC32C of what is mostly a few words: the cell of a small message and its data. No
// call, and the loop that few bytes need; longer inputs go where those are fast (base/crc32c.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/crc32c.h"

namespace weft {

/// From here on several chains side by side are faster than one.
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

/// crc32c_copy(). Inlined in any build: what is read and written may be missing, and the function that calls
/// this is made to be left by an exception (adapter/memory/guarded_copy.cc).
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
