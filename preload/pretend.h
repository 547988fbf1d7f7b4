// preload/pretend.h -- makes fstat() and its variants show a channel as a character device.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "preload/descriptors.h"

namespace weft::preload {

inline constexpr unsigned kManagerMajor = 10;
inline constexpr unsigned kManagerMinor = 58;
inline constexpr mode_t kManagerMode = S_IFCHR | 0666;

/// `out` is the kernel's result for the descriptor.
template <class Stat>
void pretend(int descriptor, Stat& out) noexcept {
  if (channel_of(descriptor) < 0 || !is_event_descriptor(out)) return;
  out.st_mode = kManagerMode;
  out.st_rdev = makedev(kManagerMajor, kManagerMinor);
}
inline void pretend(int descriptor, struct statx& out) noexcept {
  if (channel_of(descriptor) < 0 || (out.stx_mode & S_IFMT) != 0) return;
  out.stx_mode = static_cast<decltype(out.stx_mode)>(kManagerMode);
  out.stx_rdev_major = kManagerMajor;
  out.stx_rdev_minor = kManagerMinor;
}

}  // namespace weft::preload
