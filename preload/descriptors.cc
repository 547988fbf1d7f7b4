// How it works. The engine (our libibverbs.so.1) identifies a channel by one of its descriptors. If the
// program closes that one while copies exist, the engine is told to use a copy. A child of vfork() has its
// own descriptors but shares its parent's memory, which it must not change; the PID identifies it. A child of
// fork() has its own table, in which its parent's channels are dead.
#include "preload/descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "preload/engine.h"
#include "preload/next.h"

namespace weft::preload {

std::atomic<int32_t> channels[kDescriptors];

namespace {

std::atomic<int32_t> known{0};      // number of descriptors that are channels
std::atomic<pid_t> kept_by{0};      // process whose engine keeps descriptors
std::atomic<pid_t> table_owner{0};  // process whose table this is; 0: there was no channel yet

void own_table() noexcept {
  table_owner.store(getpid(), std::memory_order_relaxed);
}

[[nodiscard]] bool of_another_process() noexcept {
  return table_owner.load(std::memory_order_relaxed) != getpid();
}

void set(int descriptor, int channel) noexcept {
  const int32_t before = channels[descriptor].exchange(channel + 1, std::memory_order_relaxed);
  known.fetch_add((channel != -1 ? 1 : 0) - (before != 0 ? 1 : 0), std::memory_order_relaxed);
}

/// Takes over the table for this process.
void claim_table() noexcept {
  if (table_owner.exchange(getpid(), std::memory_order_relaxed) == 0)
    pthread_atfork(nullptr, nullptr, own_table);
}

/// Makes all descriptors of `channel` refer to it by `other`.
void rename_channel(int channel, int other) noexcept {
  for (std::atomic<int32_t>& entry : channels) {
    int32_t expected = channel + 1;
    entry.compare_exchange_strong(expected, other + 1, std::memory_order_relaxed);
  }
}

int find_copy(int channel) noexcept {
  for (size_t i = 0; i < kDescriptors; ++i) {
    if (channels[i].load(std::memory_order_relaxed) == channel + 1) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

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
  claim_table();
  if ((flags & O_NONBLOCK) != 0) fcntl(descriptor, F_SETFL, O_RDWR | O_NONBLOCK);
  if ((flags & O_CLOEXEC) == 0) fcntl(descriptor, F_SETFD, 0);
  set(descriptor, descriptor);
  return descriptor;
}

void copied(int from, int to) noexcept {
  if (to < 0 || static_cast<size_t>(to) >= kDescriptors) return;
  const int channel = std::max(channel_of(from), -1);  // a copy of a kept descriptor belongs to the program
  if (channel_of(to) == channel || of_another_process()) return;
  set(to, channel);
}

bool release(int descriptor) noexcept {
  // Almost every close() of a program ends here. engine() may load a library, so only a channel, which the
  // loaded library has made, may ask for it.
  if (channel_of(descriptor) < 0 || of_another_process()) return false;
  const Engine* all = engine();
  if (all != nullptr && channel_of(descriptor) == descriptor)
    all->cm_await_reader(descriptor);  // its write() has to find the channel
  const int channel = channel_of(descriptor);
  if (channel < 0) return false;  // another thread has released it meanwhile
  set(descriptor, -1);
  if (channel != descriptor || all == nullptr) return false;
  const int copy = find_copy(channel);
  if (copy < 0) return all->cm_close(descriptor) == 0;
  rename_channel(channel, copy);
  return all->cm_move(descriptor, copy) == 0 || all->cm_close(descriptor) == 0;
}

void release_range(unsigned first, unsigned last) noexcept {
  const auto end = static_cast<unsigned>(std::min<size_t>(size_t{last} + 1, kDescriptors));
  for (unsigned i = first; i < end && known.load(std::memory_order_relaxed) != 0; ++i)
    static_cast<void>(release(static_cast<int>(i)));
}

bool is_kept(int descriptor) noexcept {
  return static_cast<unsigned>(descriptor) < kDescriptors &&
         channels[descriptor].load(std::memory_order_relaxed) == kKept && kept_by.load() == getpid();
}

unsigned next_kept(unsigned first, unsigned last) noexcept {
  if (kept_by.load() != getpid()) return kDescriptors;
  for (unsigned i = first; i < kDescriptors && i <= last; ++i)
    if (channels[i].load(std::memory_order_relaxed) == kKept) return i;
  return kDescriptors;
}

void forget(int descriptor) noexcept {
  if (!of_another_process()) set(descriptor, -1);
}

}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the call below is all that follows

/// For the engine: marks `descriptor` as its own (`kept` 1) or releases it (0). A child of fork() does not
/// keep its parent's descriptors: they are open there by accident, and closing them is right.
WEFT_HOOK void weft_keep_descriptor(int descriptor, int kept) {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return;
  if (kept == 0) {
    int32_t expected = kKept;
    if (channels[descriptor].compare_exchange_strong(expected, 0)) known.fetch_sub(1);
    return;
  }
  claim_table();
  const pid_t self = getpid();
  if (kept_by.exchange(self) != self) {
    for (size_t i = 0; i < kDescriptors; ++i)
      if (channels[i].load(std::memory_order_relaxed) == kKept) set(static_cast<int>(i), -1);
  }
  set(descriptor, kKept - 1);
}

/// For the engine: 0 once another file is in the place of a descriptor that it keeps. One load, because the
/// engine asks before each wake-up.
WEFT_HOOK int weft_keeps_descriptor(int descriptor) {
  if (static_cast<unsigned>(descriptor) >= kDescriptors) return 0;
  return channels[descriptor].load(std::memory_order_relaxed) == kKept ? 1 : 0;
}
