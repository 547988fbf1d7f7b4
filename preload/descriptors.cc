#include "preload/descriptors.h"

#include <fcntl.h>

#include <cerrno>

#include "preload/engine.h"

namespace weft::preload {

std::atomic<int32_t> channels[kDescriptors];

int open_channel(int flags) noexcept {
  const Engine* all = engine();
  if (all == nullptr) {
    errno = ENODEV;
    return -1;
  }
  const int descriptor = all->cm_open();
  if (descriptor < 0) return -1;
  if (static_cast<size_t>(descriptor) >= kDescriptors) {
    all->cm_close(descriptor);
    errno = EMFILE;
    return -1;
  }
  if ((flags & O_NONBLOCK) != 0) fcntl(descriptor, F_SETFL, O_RDWR | O_NONBLOCK);
  if ((flags & O_CLOEXEC) == 0) fcntl(descriptor, F_SETFD, 0);
  channels[descriptor].store(descriptor + 1, std::memory_order_relaxed);
  return descriptor;
}

void copied(int from, int to) noexcept {
  const int channel = channel_of(from);
  if (channel < 0 || to < 0 || static_cast<size_t>(to) >= kDescriptors) return;
  channels[to].store(channel + 1, std::memory_order_relaxed);
}

/// The first descriptor's end is the channel's end; copies are closed like any other descriptor.
bool release(int descriptor) noexcept {
  const int channel = channel_of(descriptor);
  if (channel < 0) return false;
  channels[descriptor].store(0, std::memory_order_relaxed);
  if (channel != descriptor) return false;
  const Engine* all = engine();
  return all != nullptr && all->cm_close(descriptor) == 0;
}

}  // namespace weft::preload
