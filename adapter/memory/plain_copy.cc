// Compiled without exceptions; guarded_copy.cc has the reason.
#include "adapter/memory/plain_copy.h"

#include <atomic>
#include <cstring>

#include "adapter/memory/thread_guard.h"
#include "base/crc32c_few.h"

namespace weft::adapter {
namespace {

constexpr size_t kPlainWord = sizeof(uint64_t);

/// Stores a word that other threads see only after all earlier stores.
template <class Word>
[[gnu::always_inline]] inline void store_last(std::byte* to, Word word) noexcept {
  std::atomic_ref<Word>(*reinterpret_cast<Word*>(to)).store(word, std::memory_order_release);
}
template <class Word>
[[gnu::always_inline]] inline Word load(const std::byte* from) noexcept {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

/// For any length and alignment.
[[gnu::noinline]] void copy_in_order(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  const size_t word = last_word_bytes(to, bytes);
  const size_t rest = bytes - word;
  std::memcpy(to, from, rest);
  to += rest;
  from += rest;
  if (word == sizeof(uint64_t)) return store_last(to, load<uint64_t>(from));
  if (word == sizeof(uint32_t)) return store_last(to, load<uint32_t>(from));
  if (word == sizeof(uint16_t)) return store_last(to, load<uint16_t>(from));
  store_last(to, load<uint8_t>(from));
}

}  // namespace

/// memcpy() writes in any order; glibc's may write the first bytes after the last ones. Here the aligned word
/// that ends the range is stored after the rest.
void copy_by_signals(std::byte* to, const std::byte* from, size_t bytes) {
  enter_copy();
  if (bytes > kPlainWord && (reinterpret_cast<uintptr_t>(to) + bytes) % kPlainWord == 0) [[likely]] {
    const size_t rest = bytes - kPlainWord;
    const auto last = load<uint64_t>(from + rest);
    std::memcpy(to, from, rest);
    store_last(to + rest, last);
  } else {
    copy_in_order(to, from, bytes);
  }
  leave_copy();
}

uint32_t crc_copy_by_signals(uint32_t crc, std::byte* to, const std::byte* from, size_t bytes) {
  enter_copy();
  crc = crc32c_copy_of_few(crc, to, from, bytes);
  leave_copy();
  return crc;
}

}  // namespace weft::adapter
