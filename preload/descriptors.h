// preload/descriptors.h -- which descriptors of the process are channels of connection management.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::preload {

/// Descriptors from this number on are never ours.
inline constexpr size_t kDescriptors = 65536;
/// For each descriptor: 0 (not ours), kKept, or 1 + the descriptor by which the engine identifies the
/// channel; the index may be a copy of that one.
extern std::atomic<int32_t> channels[kDescriptors];
/// A descriptor of the engine, which the program has not opened.
inline constexpr int32_t kKept = -1;

/// The descriptor by which the engine identifies this channel; -1 if `descriptor` is no channel. A single
/// load, because every write() of the program calls it.
[[nodiscard]] inline int channel_of(int descriptor) noexcept {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return -1;
  return channels[descriptor].load(std::memory_order_relaxed) - 1;
}

/// True for a channel and for a descriptor that the engine keeps.
[[nodiscard]] inline bool is_known(int descriptor) noexcept {
  return channel_of(descriptor) != -1;
}

/// True if fstat() shows no file type, as for a channel's descriptor. A supposed channel with a file type was
/// closed by a call that we do not hook, and the number means another file.
template <class Stat>
[[nodiscard]] bool is_event_descriptor(const Stat& stat) noexcept {
  return (stat.st_mode & S_IFMT) == 0;
}

/// Opens a channel. -1 with errno.
[[nodiscard]] int open_channel(int flags) noexcept;
/// Records that `to` is a copy of `from`, which need not be ours.
void copied(int from, int to) noexcept;
/// Call before a descriptor is closed or replaced; a channel ends with its last descriptor. True: it is
/// closed already.
[[nodiscard]] bool release(int descriptor) noexcept;
/// As release() for all from `first` to `last`; some may be closed already then.
void release_range(unsigned first, unsigned last) noexcept;
/// True for a descriptor of the engine: the program must not close it, and a child must not keep it.
[[nodiscard]] bool is_kept(int descriptor) noexcept;
/// The first kept descriptor from `first` to `last`; kDescriptors when there is none.
[[nodiscard]] unsigned next_kept(unsigned first, unsigned last) noexcept;

/// Forgets a channel that was closed by a call that we do not hook, or a kept descriptor.
void forget(int descriptor) noexcept;

}  // namespace weft::preload
