// base/prefetch.h -- hints for memory that another core has just used. A ring slot is a few cache lines;
// requested two slots early, they arrive while the slots before are processed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

inline constexpr size_t kCacheLineBytes = 64;
/// Distance in slots. A line takes as long to arrive from another core as checking or composing a cell of 256
/// bytes, and cells do not arrive evenly, so one slot is too few; a third gains nothing.
inline constexpr uint32_t kPrefetchSlots = 2;
/// Only the first lines are requested: a cell of 256 bytes with its headers, or the head of a longer one. The
/// CPU's own prefetcher fetches the rest.
inline constexpr size_t kPrefetchBytesMax = 6 * kCacheLineBytes;

/// Calls `request` for the lines of the first kPrefetchBytesMax bytes. Without a loop, because a loop costs
/// more than the requests.
template <class Byte, class Request>
[[gnu::always_inline]] inline void for_each_line(Byte* at, size_t bytes, Request request) noexcept {
  static_assert(kPrefetchBytesMax == 6 * kCacheLineBytes);
  if (bytes == 0) return;
  request(at);
  if (bytes <= 1 * kCacheLineBytes) return;
  request(at + 1 * kCacheLineBytes);
  if (bytes <= 2 * kCacheLineBytes) return;
  request(at + 2 * kCacheLineBytes);
  if (bytes <= 3 * kCacheLineBytes) return;
  request(at + 3 * kCacheLineBytes);
  if (bytes <= 4 * kCacheLineBytes) return;
  request(at + 4 * kCacheLineBytes);
  if (bytes > 5 * kCacheLineBytes) request(at + 5 * kCacheLineBytes);
}

/// Requests lines that will soon be read.
inline void prefetch_to_read(const std::byte* at, size_t bytes) noexcept {
  for_each_line(at, bytes, [](const std::byte* line) { __builtin_prefetch(line); });
}

/// Requests lines that will soon be written, which removes them from their readers' caches.
inline void prefetch_to_write(std::byte* at, size_t bytes) noexcept {
  for_each_line(at, bytes, [](std::byte* line) {
#if defined(__x86_64__)
    // For the baseline CPU, __builtin_prefetch() would emit a read prefetch. CPUs without prefetchw treat it
    // as a no-op.
    asm volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  });
}

}  // namespace weft
