// base/prefetch.h -- hints for memory that another core has just used. A slot of a ring is a handful of cache
// lines; asked for two slots early they come while the slots before are worked on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft {

inline constexpr size_t kCacheLineBytes = 64;
/// How early: a line takes as long to come from another core as a cell of 256 bytes to be checked or
/// composed, and they do not come evenly. A third slot gains nothing.
inline constexpr uint32_t kPrefetchSlots = 2;
/// The first lines are asked for, the processor's own prefetcher does the rest: a cell of 256 bytes with its
/// headers, or the head of a longer one.
inline constexpr size_t kPrefetchBytesMax = 6 * kCacheLineBytes;

/// Lines that are about to be read.
inline void prefetch_to_read(const std::byte* at, size_t bytes) noexcept {
  const std::byte* end = at + std::min(bytes, kPrefetchBytesMax);
  for (; at < end; at += kCacheLineBytes) __builtin_prefetch(at);
}

/// Lines that are about to be written: taken out of the caches of their readers.
inline void prefetch_to_write(std::byte* at, size_t bytes) noexcept {
  std::byte* end = at + std::min(bytes, kPrefetchBytesMax);
  for (; at < end; at += kCacheLineBytes) {
#if defined(__x86_64__)
    // Not in the baseline, where __builtin_prefetch() asks for a line to read; a no-op where it is not known.
    asm volatile("prefetchw %0" : : "m"(*at));
#else
    __builtin_prefetch(at, 1);
#endif
  }
}

}  // namespace weft
