// hca/event_fd.h -- a descriptor that is readable while events wait: an eventfd in semaphore mode with one
// unit per event. A program may poll it and make it O_NONBLOCK, but may read it only through the calls of
// hca/.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/guarded_fd.h"
#include "hca/answer.h"

namespace weft::hca {

/// Any thread. Every call except fd() makes a system call.
class EventFd {
 public:
  /// Null when the process has no descriptor left.
  [[nodiscard]] static std::shared_ptr<EventFd> create();
  explicit EventFd(GuardedFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// For poll(): -1 once the program has closed the descriptor.
  [[nodiscard]] int poll_fd() const noexcept { return fd_.is_ours() ? fd_.get() : -1; }
  void add(uint64_t units) noexcept;
  /// Takes one unit; waits for it unless the descriptor is O_NONBLOCK. kOk, kAgain, kInterrupted.
  /// pthread_cancel() may end the wait and unwind the callers, so no caller is noexcept or holds a lock.
  [[nodiscard]] Answer take();
  /// Takes one unit if there is one; never waits, even if the descriptor is not O_NONBLOCK.
  void take_back() noexcept;

 private:
  GuardedFd fd_;
};

}  // namespace weft::hca
