// adapter/memory/thread_guard.h -- a thread's state for its copies to and from regions, used by the copies
// (guarded_copy.h) and the signal handler (fault_handler.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace weft::adapter {

/// There is no memory at an address of a region. Thrown only out of guarded copies.
struct MemoryFault {};

enum class GuardWay : uint8_t {
  kUnknown,  // ask the kernel before the next copy
  kSignals,  // a fault reaches our handler
  kKernel,   // it would not: the signal is blocked, or another handler is installed
  kFinish,   // a fault occurred: the kernel copies the memory that is there and skips the rest
};

/// State of one thread. In one cache line, with no other data that a copy needs.
struct ThreadGuard {
  const void* stack = nullptr;  // stack pointer of the running guarded copy; null outside
  Instant asked{};              // when `way` was last determined
  GuardWay way = GuardWay::kUnknown;
};
extern thread_local constinit ThreadGuard thread_guard [[gnu::tls_model("initial-exec")]];

/// The thread's signal mask has changed: it asks the kernel before its next copy.
inline void forget_guard() noexcept {
  thread_guard = {};
}

/// Mark the beginning and the end of the plain accesses of a guarded copy.
[[gnu::always_inline]] inline void enter_copy() noexcept {
#if defined(__x86_64__)
  asm volatile("movq %%rsp, %0" : "=m"(thread_guard.stack));
#elif defined(__aarch64__)
  const void* stack = nullptr;
  asm volatile("mov %0, sp" : "=r"(stack));
  thread_guard.stack = stack;
#else
  thread_guard.stack = __builtin_frame_address(0);
#endif
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
[[gnu::always_inline]] inline void leave_copy() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread_guard.stack = nullptr;
}

/// For the handler: true when this thread's guarded copy, not a handler that interrupted it, was running at
/// `stack`. The copy then counts as left.
[[nodiscard]] bool leave_guarded_copy(const void* stack) noexcept;

/// While it exists, the guarded functions of this thread do not fail: bytes without memory are dropped when
/// written and zero when read.
class FinishWithoutMemory {
 public:
  FinishWithoutMemory() noexcept : before_(thread_guard.way) { thread_guard.way = GuardWay::kFinish; }
  ~FinishWithoutMemory() { thread_guard.way = before_; }
  FinishWithoutMemory(const FinishWithoutMemory&) = delete;
  FinishWithoutMemory& operator=(const FinishWithoutMemory&) = delete;

 private:
  GuardWay before_;
};

}  // namespace weft::adapter
