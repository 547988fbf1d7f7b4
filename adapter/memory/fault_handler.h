// adapter/memory/fault_handler.h -- what a process does about a region whose memory is gone (SIGSEGV, or
// SIGBUS where a mapped file was cut short). One handler for each of the two signals is in the kernel: ours.
// The action that the program has set for the signal is kept beside it and done whenever the signal is not
// about a guarded copy, with the mask, stack and flags that the program has asked for.
#pragma once

#include <csignal>

#include "adapter/memory/thread_guard.h"
#include "base/clock.h"

namespace weft::adapter {

/// Installs the process's handler for both signals, once in each process; later calls do nothing. A fault in
/// a guarded copy becomes a MemoryFault in the thread that copied. Every other fault, and every signal that
/// was sent, does what the program's own action says. False where it is not installed: under the thread
/// sanitizer, which runs handlers on frames of its own that nothing can be thrown through.
bool install_fault_handler();

/// sigaction() of the program, for SIGSEGV and SIGBUS: keeps the action as the program's own and leaves ours
/// in the kernel. For what stands before libc's sigaction(). May be called in a signal handler and after
/// vfork(). Where our handler is not installed it is libc's sigaction().
int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept;

/// True when a fault of this thread would reach our handler: it is the one in the kernel for both signals,
/// and neither is blocked. Three system calls.
[[nodiscard]] bool faults_reach_us() noexcept;

/// How often a thread asks the kernel again whether its faults reach our handler: three system calls of
/// 0.7 us together, 0.3 % of the time of a thread that does nothing but copy.
inline constexpr Duration kGuardPeriod = std::chrono::microseconds(250);

/// Does a fault of this thread reach our handler? Asks the kernel where the thread does not know.
bool ask_for_signals() noexcept;

/// A thread of the program is going to use an adapter, and holds no lock yet: it asks again if it last asked
/// long ago. Threads that never call this ask once, at their first copy.
inline void refresh_guard(Instant now) noexcept {
  ThreadGuard& guard = thread_guard;
  if (now - guard.asked < kGuardPeriod) [[likely]]
    return;
  guard = {.asked = now};
  (void)ask_for_signals();
}

}  // namespace weft::adapter
