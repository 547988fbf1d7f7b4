// Hooks for libc calls that set the action for SIGSEGV and SIGBUS or a thread's signal mask. While our
// libibverbs has its own handler for the two signals, the program's actions are given to it and it runs them
// (adapter/memory/fault_handler.h); it is also told of changed masks. Everything else goes to libc.
#include <signal.h>

#include <atomic>
#include <cerrno>

#include "preload/next.h"

namespace weft::preload {
namespace {

using Action = int (*)(int, const struct sigaction*, struct sigaction*);
using MaskChanged = void (*)();
using Handler = void (*)(int);

constinit Next<Action> next_sigaction("sigaction");
constinit Next<Handler (*)(int, Handler)> next_signal("signal");
constinit Next<Handler (*)(int, Handler)> next_sysv_signal("__sysv_signal");
constinit Next<int (*)(int, int)> next_siginterrupt("siginterrupt");
constinit Next<int (*)(int, const sigset_t*, sigset_t*)> next_sigprocmask("sigprocmask");
constinit Next<int (*)(int, const sigset_t*, sigset_t*)> next_pthread_sigmask("pthread_sigmask");

/// Null until the library has a handler.
std::atomic<Action> kept_action{nullptr};
std::atomic<MaskChanged> mask_changed{nullptr};
std::atomic<bool> interrupts[2];  // siginterrupt() of each: signal() leaves SA_RESTART out

/// The function that takes the program's action in place of libc; null for other signals.
Action keeper_of(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS ? kept_action.load(std::memory_order_acquire) : nullptr;
}

std::atomic<bool>& interrupts_of(int signal) noexcept {
  return interrupts[signal == SIGSEGV ? 0 : 1];
}

/// signal() by sigaction().
Handler set_handler(Action keeper, int signal, Handler handler, int flags, bool blocks_itself) noexcept {
  struct sigaction wanted {};
  wanted.sa_handler = handler;
  wanted.sa_flags = flags;
  sigemptyset(&wanted.sa_mask);
  if (blocks_itself) sigaddset(&wanted.sa_mask, signal);
  struct sigaction before {};
  return keeper(signal, &wanted, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int tell_mask(int answer, const sigset_t* set) noexcept {
  const MaskChanged tell = mask_changed.load(std::memory_order_acquire);
  if (answer == 0 && set != nullptr && tell != nullptr) tell();
  return answer;
}

/// Signal handlers and children of vfork() make these calls, where dlsym() may not be called.
[[gnu::constructor]] void find_all() noexcept {
  (void)next_sigaction.get();
  (void)next_signal.get();
  (void)next_sysv_signal.get();
  (void)next_siginterrupt.get();
  (void)next_sigprocmask.get();
  (void)next_pthread_sigmask.get();
}

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

/// For our libibverbs, once it has its handler.
WEFT_HOOK void weft_preload_keep_signals(Action keeper, MaskChanged changed) {
  mask_changed.store(changed, std::memory_order_release);
  kept_action.store(keeper, std::memory_order_release);
}

WEFT_HOOK int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  const Action keeper = keeper_of(signal);
  return (keeper != nullptr ? keeper : next_sigaction.get())(signal, action, old);
}

WEFT_HOOK Handler signal(int number, Handler handler) noexcept {
  const Action keeper = keeper_of(number);
  if (keeper == nullptr) [[likely]]
    return next_signal.get()(number, handler);
  return set_handler(keeper, number, handler, interrupts_of(number) ? 0 : SA_RESTART, true);
}

/// signal() of programs that are compiled for System V.
WEFT_HOOK Handler __sysv_signal(int number, Handler handler) noexcept {  // NOLINT: libc's name
  const Action keeper = keeper_of(number);
  if (keeper == nullptr) [[likely]]
    return next_sysv_signal.get()(number, handler);
  return set_handler(keeper, number, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER), false);
}

WEFT_HOOK int siginterrupt(int signal, int interrupt) noexcept {
  const Action keeper = keeper_of(signal);
  if (keeper == nullptr) [[likely]]
    return next_siginterrupt.get()(signal, interrupt);
  interrupts_of(signal) = interrupt != 0;
  struct sigaction now {};
  (void)keeper(signal, nullptr, &now);
  now.sa_flags = interrupt != 0 ? now.sa_flags & ~SA_RESTART : now.sa_flags | SA_RESTART;
  return keeper(signal, &now, nullptr);
}

WEFT_HOOK int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return tell_mask(next_sigprocmask.get()(how, set, old), set);
}

WEFT_HOOK int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return tell_mask(next_pthread_sigmask.get()(how, set, old), set);
}
