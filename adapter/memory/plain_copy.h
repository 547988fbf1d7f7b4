// adapter/memory/plain_copy.h -- copies to and from regions for threads whose faults reach our handler. The
// handler throws out of these functions.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::adapter {

/// copy_guarded() and crc_copy_guarded(), without a check of the thread's GuardWay.
[[gnu::noinline]] void copy_by_signals(std::byte* to, const std::byte* from, size_t bytes);
[[nodiscard]] uint32_t crc_copy_by_signals(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes);

/// Size of the aligned word that ends the range [to, to + bytes), at least one byte. This word is stored
/// last, by one store.
[[nodiscard]] inline size_t last_word_bytes(const std::byte* to, size_t bytes) noexcept {
  const uintptr_t end = reinterpret_cast<uintptr_t>(to) + bytes;
  const size_t fits = std::bit_floor(std::min(bytes, sizeof(uint64_t)));
  return std::min<size_t>(end & (~end + 1), fits);
}

}  // namespace weft::adapter
