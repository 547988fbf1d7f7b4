#include "hca/event_fd.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace weft::hca {

std::shared_ptr<EventFd> EventFd::create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  return fd.valid() ? std::make_shared<EventFd>(GuardedFd(std::move(fd))) : nullptr;
}

void EventFd::add(uint64_t units) noexcept {
  // Never blocks: that would take a counter near 2^64. Uses eventfd_write() because the preloaded object may
  // redirect write() on a program's descriptors (preload/).
  if (fd_.can_wake()) static_cast<void>(eventfd_write(fd_.get(), units));
}

Answer EventFd::take() {
  uint64_t unit = 0;
  if (read(fd_.get(), &unit, sizeof unit) == sizeof unit) return Answer::kOk;
  return errno == EINTR ? Answer::kInterrupted : Answer::kAgain;
}

bool EventFd::try_take() noexcept {
  uint64_t unit = 0;
  const iovec into{&unit, sizeof unit};
  return fd_.is_ours() && preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT) == sizeof unit;
}

void EventFd::take_back() noexcept {
  static_cast<void>(try_take());
}

void EventFd::add_unordered(uint64_t units) noexcept {
  units -= pay(units);
  if (units != 0) add(units);
  if (owed_.load() > 0) [[unlikely]]
    settle();
}

void EventFd::take_back_unordered() noexcept {
  int64_t owed = owed_.load();
  while (owed < 0) {
    if (owed_.compare_exchange_weak(owed, owed + 1)) return;
  }
  if (try_take()) return;
  owed_.fetch_add(1);
  settle();
}

uint64_t EventFd::pay(uint64_t units) noexcept {
  int64_t owed = owed_.load();
  while (owed > 0 && units != 0) {
    const int64_t paid = std::min(owed, static_cast<int64_t>(units));
    if (owed_.compare_exchange_weak(owed, owed - paid)) return static_cast<uint64_t>(paid);
  }
  return 0;
}

/// Ends the state in which units are owed and the descriptor has some. Called after each step that may cause
/// it: after a write, and after the number owed was raised. The later of two such steps therefore finds both.
void EventFd::settle() noexcept {
  while (owed_.load() > 0 && try_take()) {
    if (pay(1) == 0) add(1);  // another thread has paid in between
  }
}

}  // namespace weft::hca
