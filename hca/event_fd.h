// hca/event_fd.h -- a descriptor that is readable while events wait: an eventfd in semaphore mode with one
// unit per event. A program may poll it and make it O_NONBLOCK, but may read it only through the calls of
// hca/.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/guarded_fd.h"
#include "hca/answer.h"

namespace weft::hca {

/// Any thread. Every call except fd() and no_event_for_unit() makes a system call.
class EventFd {
 public:
  /// Null when the process has no descriptor left.
  [[nodiscard]] static std::shared_ptr<EventFd> create();
  explicit EventFd(GuardedFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// For poll(): -1 once the program has closed the descriptor.
  [[nodiscard]] int poll_fd() const noexcept { return fd_.is_ours() ? fd_.get() : -1; }
  /// Uses another descriptor from now on.
  void use(GuardedFd fd) noexcept { fd_ = std::move(fd); }
  void add(uint64_t units) noexcept;
  /// Takes one unit; waits for it unless the descriptor is O_NONBLOCK. kOk, kAgain, kInterrupted.
  /// pthread_cancel() may end the wait and unwind the callers, so no caller is noexcept or holds a lock.
  [[nodiscard]] Answer take();
  /// Takes one unit if there is one; never waits, even if the descriptor is not O_NONBLOCK. If there is none,
  /// a reader has taken it.
  void take_back() noexcept;

  // ---- for threads that write and take back units after they have released a common lock, in any order ----
  /// Writes the units, less those that are owed.
  void add_unordered(uint64_t units) noexcept;
  /// Takes one unit back. If it is not there, its writer or its reader has still to come: the unit is owed.
  void take_back_unordered() noexcept;
  /// A reader has taken a unit and found no event: the unit was that of a dropped event, and one
  /// take_back_unordered() has nothing more to do.
  void no_event_for_unit() noexcept { owed_.fetch_sub(1); }

 private:
  [[nodiscard]] bool try_take() noexcept;
  /// Lowers `owed_` by up to `units`, not below 0. @return by how much
  [[nodiscard]] uint64_t pay(uint64_t units) noexcept;
  void settle() noexcept;

  GuardedFd fd_;
  // Units to be taken back that were not found; negative: calls that have nothing more to take back.
  std::atomic<int64_t> owed_{0};
};

}  // namespace weft::hca
