// adapter/memory/fault_handler.h -- handles faults on a region whose memory is gone (SIGSEGV, or SIGBUS if a
// mapped file was truncated). The kernel has our handler for both signals. The action that the program sets
// is stored. It is executed for every signal that does not come from a guarded copy, with the mask, stack and
// flags that the program has chosen.
#pragma once

#include <csignal>

#include "adapter/memory/thread_guard.h"
#include "base/clock.h"

namespace weft::adapter {

/// Installs the process's handler for both signals, once per process; later calls do nothing. A fault in a
/// guarded copy becomes a MemoryFault in the thread that copied. Every other fault, and every sent signal,
/// causes the program's own action. False if it is not installed: under the thread sanitizer, whose own
/// handler frames cannot be unwound.
bool install_fault_handler();

/// sigaction() of the program for SIGSEGV and SIGBUS: stores the program's action and leaves ours in the
/// kernel. Called by the function that interposes libc's sigaction(). May be called in a signal handler and
/// after vfork(). If our handler is not installed, it is libc's sigaction().
int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

/// True when a fault of this thread would reach our handler: the kernel has it for both signals, and neither
/// signal is blocked. Three system calls.
[[nodiscard]] bool faults_reach_us() noexcept;

/// Interval at which a thread asks the kernel again whether its faults reach our handler: three system calls
/// of 0.7 us together, 0.3 % of the time of a thread that only copies.
inline constexpr Duration kGuardPeriod = std::chrono::microseconds(250);

/// True when a fault of this thread reaches our handler. Asks the kernel if the thread does not know.
bool ask_for_signals() noexcept;

/// True when refresh_guard() would ask the kernel.
[[nodiscard]] inline bool guard_is_old(Instant now) noexcept {
  return now - thread_guard.asked >= kGuardPeriod;
}
/// Call before a thread of the program uses an adapter, without a lock held. The thread asks again if its
/// last answer is older than kGuardPeriod. Threads that never call this ask once, at their first copy.
inline void refresh_guard(Instant now) noexcept {
  if (!guard_is_old(now)) [[likely]]
    return;
  thread_guard = {.asked = now};
  (void)ask_for_signals();
}

}  // namespace weft::adapter
