// preload/descriptors.h -- which descriptors of the process are channels of connection management.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::preload {

/// Higher ones are never ours.
inline constexpr size_t kDescriptors = 65536;
/// By descriptor: 0, or 1 + the channel's first descriptor, of which it may be a copy.
extern std::atomic<int32_t> channels[kDescriptors];

/// The first descriptor of the channel that this one is; -1: it is none. One load, for it stands in the path
/// of every write() of the program.
[[nodiscard]] inline int channel_of(int descriptor) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return -1;
  return channels[descriptor].load(std::memory_order_relaxed) - 1;
}

/// Opens a channel. -1 with errno.
[[nodiscard]] int open_channel(int flags) noexcept;
/// `to` has become a copy of `from`, which may be none of ours.
void copied(int from, int to) noexcept;
/// The descriptor is about to be closed or replaced. True: it is closed already.
[[nodiscard]] bool release(int descriptor) noexcept;

}  // namespace weft::preload
