// adapter/memory/thread_guard.h -- what a thread knows of its copies to and from regions, for the copies
// (guarded_copy.h) and for the signal handler (fault_handler.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace weft::adapter {

/// There is no memory behind an address of a region. Thrown out of guarded copies and by nothing else.
struct MemoryFault {};

enum class GuardWay : uint8_t {
  kUnknown,  // ask the kernel before the next copy
  kSignals,  // a fault reaches our handler
  kKernel,   // it would not: the signal is blocked, or the handler is another
  kFinish,   // a fault was met: copy by the kernel what is there, and leave out what is not
};

/// Of one thread. One line of cache with nothing else that a copy needs.
struct ThreadGuard {
  const void* stack = nullptr;  // stack pointer of the guarded copy that runs; null outside
  Instant asked{};              // when `way` was last found out
  GuardWay way = GuardWay::kUnknown;
};
extern thread_local constinit ThreadGuard thread_guard [[gnu::tls_model("initial-exec")]];

/// The thread's signal mask is another: it asks at the next occasion.
inline void forget_guard() noexcept {
  thread_guard = {};
}

/// Around the plain accesses of a guarded copy.
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

/// For the handler: did this thread's guarded copy, and no handler that interrupted it, run at `stack`? The
/// thread counts as outside from now on if so.
[[nodiscard]] bool leave_guarded_copy(const void* stack) noexcept;

/// While it lives, the guarded functions of this thread do not fail: bytes for which there is no memory are
/// dropped, and are zero where they are read.
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
