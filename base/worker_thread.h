// base/worker_thread.h -- a thread of ours within a program that is not ours: signals are the program's own
// threads', and what it waits for can be cut short.
#pragma once

#include <pthread.h>

#include "base/unique_fd.h"

namespace weft {

/// Starts `run(self)` in a thread called `name` (at most 15 characters) with all signals blocked.
/// @return 0, or the errno of why there is none
[[nodiscard]] int start_worker(pthread_t& out, const char* name, void* (*run)(void*), void* self) noexcept;

/// A descriptor that is readable from wake() until clear(). Any thread may wake.
class WakeUp {
 public:
  WakeUp() noexcept;
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void wake() noexcept;
  void clear() noexcept;

 private:
  UniqueFd fd_;
};

}  // namespace weft
