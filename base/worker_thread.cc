#include "base/worker_thread.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace weft {

int start_worker(pthread_t& out, const char* name, void* (*run)(void*), void* self) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (const int failed = pthread_sigmask(SIG_SETMASK, &all, &before); failed != 0) return failed;
  const int failed = pthread_create(&out, nullptr, run, self);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) pthread_setname_np(out, name);
  return failed;
}

WakeUp::WakeUp() noexcept : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeUp::wake() noexcept {
  const uint64_t one = 1;
  static_cast<void>(write(fd_.get(), &one, sizeof one));
}

void WakeUp::clear() noexcept {
  uint64_t wakes = 0;
  static_cast<void>(read(fd_.get(), &wakes, sizeof wakes));
}

}  // namespace weft
