// base/worker_thread.h -- a thread of ours within a program that is not ours: signals are the program's own
// threads', and what it waits for can be cut short.
#pragma once

#include <pthread.h>

#include "base/guarded_fd.h"

namespace weft {

/// Starts `run(self)` in a thread called `name` (at most 15 characters) with all signals blocked but SIGSEGV
/// and SIGBUS: the kernel ends a process whose thread makes a fault while that signal is blocked.
/// @return 0, or the errno of why there is none
[[nodiscard]] int start_worker(pthread_t& out, const char* name, void* (*run)(void*), void* self) noexcept;
/// True in a thread that start_worker() made.
[[nodiscard]] bool in_worker_thread() noexcept;

/// A descriptor that is readable from wake() until clear(). Any thread may wake. A pipe and no eventfd: all
/// eventfds are one file to fstat(), so none could be told from one of the program's (base/guarded_fd.h).
class WakeUp {
 public:
  WakeUp() noexcept;
  [[nodiscard]] bool valid() const noexcept { return in_.valid() && out_.valid(); }
  /// -1 once clear() has found that the program closed it: then nothing wakes any more.
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
