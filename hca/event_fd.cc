#include "hca/event_fd.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

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

void EventFd::take_back() noexcept {
  uint64_t unit = 0;
  const iovec into{&unit, sizeof unit};
  if (fd_.is_ours()) static_cast<void>(preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT));
}

}  // namespace weft::hca
