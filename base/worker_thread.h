// base/worker_thread.h -- a thread of Weft within a stock program: signals go to the program's own threads,
// and a descriptor ends the thread's waits early.
#pragma once

#include <pthread.h>

#include "base/guarded_fd.h"

namespace weft {

/// Starts `run(self)` in a thread called `name` (at most 15 characters) with all signals blocked but SIGSEGV
/// and SIGBUS: the kernel ends a process whose thread makes a fault while that signal is blocked.
/// @return 0, or the errno of the failure
[[nodiscard]] int start_worker(pthread_t& out, const char* name, void* (*run)(void*), void* self) noexcept;
/// True in a thread that start_worker() made.
[[nodiscard]] bool in_worker_thread() noexcept;

/// A descriptor that is readable from wake() until clear(). Any thread may wake. A pipe, not an eventfd:
/// fstat() shows the same file for all eventfds, so that ours could not be distinguished from the program's
/// (base/guarded_fd.h).
class WakeUp {
 public:
  WakeUp() noexcept;
  [[nodiscard]] bool valid() const noexcept { return in_.valid() && out_.valid(); }
  /// -1 after clear() has found that the program closed it; wake() then has no effect.
  [[nodiscard]] int fd() const noexcept { return lost_ ? -1 : in_.get(); }
  void wake() noexcept;
  /// Only by the thread that waits.
  void clear() noexcept;

 private:
  GuardedFd in_;
  GuardedFd out_;
  bool lost_ = false;
};

}  // namespace weft
