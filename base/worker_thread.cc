#include "base/worker_thread.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace weft {
namespace {

constinit thread_local bool is_worker = false;

/// Arguments of the new thread. They lie on the stack of the starting thread, which waits until the new
/// thread has copied them: the new thread must not allocate or free memory.
struct Start {
  void* (*run)(void*);
  void* self;
  std::atomic<bool> taken{false};
};

void* begin(void* given) {
  auto* start = static_cast<Start*>(given);
  void* (*const run)(void*) = start->run;
  void* const self = start->self;
  is_worker = true;
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  start->taken.store(true, std::memory_order_release);
  start->taken.notify_one();
  return run(self);
}

}  // namespace

int start_worker(pthread_t& out, const char* name, void* (*run)(void*), void* self) noexcept {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (const int failed = pthread_sigmask(SIG_SETMASK, &all, &before); failed != 0) return failed;
  Start start{run, self};
  const int failed = pthread_create(&out, nullptr, begin, &start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0) return failed;
  pthread_setname_np(out, name);
  start.taken.wait(false, std::memory_order_acquire);
  return 0;
}

bool in_worker_thread() noexcept {
  return is_worker;
}

WakeUp::WakeUp() noexcept {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  in_ = GuardedFd(UniqueFd(ends[0]));
  out_ = GuardedFd(UniqueFd(ends[1]));
}

void WakeUp::wake() noexcept {
  constexpr char kOne = 1;  // if the pipe is full, the reader is awake anyway
  if (out_.can_wake()) static_cast<void>(write(out_.get(), &kOne, sizeof kOne));
}

void WakeUp::clear() noexcept {
  std::array<char, 256> wakes;
  if (in_.is_ours()) {
    while (read(in_.get(), wakes.data(), wakes.size()) == static_cast<ssize_t>(wakes.size())) {
    }
  } else {
    lost_ = true;
  }
}

}  // namespace weft
