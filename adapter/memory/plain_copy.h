// adapter/memory/plain_copy.h -- copies to and from regions for threads whose faults reach our handler, which
// throws out of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::adapter {

/// copy_guarded() and crc_copy_guarded() without a question.
[[gnu::noinline]] void copy_by_signals(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard]] uint32_t crc_copy_by_signals(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes);

/// Bytes of the aligned word that ends the range [to, to + bytes), at least one byte: stored last, and at
/// once.
[[nodiscard]] inline size_t last_word_bytes(const std::byte* to, size_t bytes) noexcept {
  const uintptr_t end = reinterpret_cast<uintptr_t>(to) + bytes;
  const size_t fits = std::bit_floor(std::min(bytes, sizeof(uint64_t)));
  return std::min<size_t>(end & (~end + 1), fits);
}

}  // namespace weft::adapter
