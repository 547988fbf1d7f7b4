// fabric/window/window_words.h -- access to window memory that the peer may write at any time: words of eight
// bytes as one access, in one order with those of the peer's device (device.h, "Order").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/endian.h"
#include "fabric/window/device.h"

namespace weft::fabric {

inline constexpr size_t kWindowWordBytes = sizeof(uint64_t);
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);

/// `at` is a multiple of eight. Raw: as the bytes lie in memory.
[[nodiscard]] inline uint64_t load_raw_word(std::byte* at) noexcept {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).load(std::memory_order_seq_cst);
}
inline void store_raw_word(std::byte* at, uint64_t raw) noexcept {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(raw, std::memory_order_seq_cst);
}
/// The same for big-endian numbers.
[[nodiscard]] inline uint64_t load_window_word(std::byte* at) noexcept {
  return to_big(load_raw_word(at));
}
inline void store_window_word(std::byte* at, uint64_t value) noexcept {
  store_raw_word(at, to_big(value));
}

/// Behind all earlier stores of this thread, but not in the one order of the others.
inline void publish_window_word(std::byte* at, uint64_t value) noexcept {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(to_big(value), std::memory_order_release);
}

/// A word that the peer publishes behind earlier stores, raw.
[[nodiscard]] inline uint64_t acquire_raw_word(std::byte* at) noexcept {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).load(std::memory_order_acquire);
}
/// Behind all earlier stores of this thread.
inline void release_raw_word(std::byte* at, uint64_t raw) noexcept {
  std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(at)).store(raw, std::memory_order_release);
}

/// True when [offset, offset + bytes) lies in `size` bytes.
[[nodiscard]] constexpr bool lies_inside(uint64_t offset, uint64_t bytes, uint64_t size) noexcept {
  return offset <= size && bytes <= size - offset;
}

/// Bytes at the end of a write that move last: as many as end an aligned word. None for a write of one word
/// or less, whose bytes have no order.
[[nodiscard]] constexpr uint64_t last_bytes(const DmaRequest& request) noexcept {
  if (request.bytes <= kWindowWordBytes) return 0;
  const uint64_t over = (request.remote + request.bytes) % kWindowWordBytes;
  return over == 0 ? kWindowWordBytes : over;
}

/// A write to the mapped window memory of the peer, the last bytes last (device.h, "Order").
inline void write_in_window(std::byte* remote, const DmaRequest& request) noexcept {
  const uint64_t last = last_bytes(request);
  const uint64_t first = request.bytes - last;
  std::memcpy(remote, request.local, first);
  if (last == kWindowWordBytes) {
    store_raw_word(remote + first, load_once<uint64_t>(request.local + first));
    return;
  }
  for (uint64_t at = first; at < request.bytes; ++at)
    std::atomic_ref<std::byte>(remote[at]).store(request.local[at], std::memory_order_release);
}

/// Carries out a request of the window space on the mapped window memory of the peer.
[[nodiscard]] inline DmaStatus move_in_window(std::span<std::byte> memory,
                                              const DmaRequest& request) noexcept {
  if (!lies_inside(request.remote, request.bytes, memory.size())) return DmaStatus::kOutOfBounds;
  if (request.bytes == 0) return DmaStatus::kGood;
  std::byte* const remote = memory.data() + request.remote;
  const bool is_word = request.bytes == kWindowWordBytes && request.remote % kWindowWordBytes == 0;
  if (request.kind == DmaKind::kWrite && is_word) {
    store_raw_word(remote, load_once<uint64_t>(request.local));
  } else if (request.kind == DmaKind::kWrite) {
    write_in_window(remote, request);
  } else if (is_word) {
    const uint64_t raw = load_raw_word(remote);
    std::memcpy(request.local, &raw, sizeof raw);
  } else {
    std::memcpy(request.local, remote, request.bytes);
  }
  return DmaStatus::kGood;
}

}  // namespace weft::fabric
