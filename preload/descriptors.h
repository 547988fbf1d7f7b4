// preload/descriptors.h -- which descriptors of the process are channels of connection management.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::preload {

/// Higher ones are never ours.
inline constexpr size_t kDescriptors = 65536;
/// By descriptor: 0; kKept; or 1 + the one by which the engine knows the channel, of which it may be a copy.
extern std::atomic<int32_t> channels[kDescriptors];
/// One of the engine's own, which the program has not opened.
inline constexpr int32_t kKept = -1;

/// The descriptor by which the engine knows the channel that this one is; -1: it is none. One load, for it
/// stands in the path of every write() of the program.
[[nodiscard]] inline int channel_of(int descriptor) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return -1;
  return channels[descriptor].load(std::memory_order_relaxed) - 1;
}

/// What fstat() says of a channel's descriptor: it has no type. A descriptor that we take for a channel and
/// that has one was closed by means that we do not see, and is something else by now.
template <class Stat>
[[nodiscard]] bool is_event_descriptor(const Stat& stat) noexcept {
  return (stat.st_mode & S_IFMT) == 0;
}

/// Opens a channel. -1 with errno.
[[nodiscard]] int open_channel(int flags) noexcept;
/// `to` has become a copy of `from`, which may be none of ours.
void copied(int from, int to) noexcept;
/// The descriptor is about to be closed or replaced; a channel ends with its last one. True: it is closed
/// already.
[[nodiscard]] bool release(int descriptor) noexcept;
/// As release() for all from `first` to `last`; some may be closed already then.
void release_range(unsigned first, unsigned last) noexcept;
/// True for a descriptor of the engine's own: it is not the program's to close, nor a child's to keep.
[[nodiscard]] bool is_kept(int descriptor) noexcept;
/// The first kept descriptor from `first` to `last`; kDescriptors when there is none.
[[nodiscard]] unsigned next_kept(unsigned first, unsigned last) noexcept;

/// The descriptor is no channel any more, and was not for a while.
void forget(int descriptor) noexcept;

}  // namespace weft::preload
