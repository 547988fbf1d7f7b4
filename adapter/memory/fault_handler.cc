// How it works: the kernel reports a fault in the thread that made it, at the faulting instruction. If that
// thread is in a guarded copy, the handler restores the signal mask and throws. The unwinder passes the
// signal frame, the copying function and its caller, as after any other throw. At that point no lock is held
// and no state is inconsistent, because a guarded copy calls only memcpy and checksum loops.
//
// A fault belongs to a guarded copy when the kernel raised it (si_code > 0) and the stack pointer is where
// the copy put it. A handler that interrupts the copy and faults itself runs further down the stack or on
// another stack.
//
// Every other fault belongs to the program. Our entry in the kernel has the mask and flags of the program's
// action, so the kernel blocks the signals that the program wants blocked, on the stack that the program
// wants; the handler only has to call the program's function. SA_RESETHAND is implemented here. The default
// action, and a fault while the signal is ignored, are passed back to the kernel: it gets SIG_DFL and the
// same signal again.
//
// A signal sent to the process may arrive in one of our threads, where these two signals are not blocked.
// Such a thread must not handle the program's signals: it blocks the signal and sends it to the process
// again.
#include "adapter/memory/fault_handler.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>

#include "adapter/memory/thread_guard.h"
#include "base/check.h"
#include "base/worker_thread.h"

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif

/// libc's sigaction(), even if another object interposes it.
extern "C" int __sigaction(int, const struct sigaction*, struct sigaction*) noexcept;  // NOLINT

namespace weft::adapter {
namespace {

#if defined(WEFT_THREAD_SANITIZER)
constexpr bool kHandlerCanThrow = false;
#else
constexpr bool kHandlerCanThrow = true;
#endif
constexpr std::array kFaultSignals{SIGSEGV, SIGBUS};
constexpr int kServesOnce = static_cast<int>(SA_RESETHAND);
constexpr int kSpinsMax = 1 << 20;  // a child may be forked while another thread holds it

/// State of the whole process, indexed like kFaultSignals. A child after fork() or vfork() is another process
/// and must not change it.
struct Actions {
  std::atomic<pid_t> owner{0};
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  std::array<struct sigaction, kFaultSignals.size()> program{};
};
constinit Actions actions;

struct sigaction& program_action(int signal) noexcept {
  return actions.program[signal == kFaultSignals[0] ? 0 : 1];
}

/// Holds the table's lock with all signals blocked, because a handler that interrupted the owner would wait
/// for ever.
class Held {
 public:
  Held() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    for (int spins = 0; actions.lock.test_and_set(std::memory_order_acquire) && spins < kSpinsMax; ++spins) {
    }
  }
  ~Held() {
    actions.lock.clear(std::memory_order_release);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  sigset_t before_{};
};

const void* stack_of(const void* context) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto stack = static_cast<uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  const auto stack = static_cast<uintptr_t>(machine.sp);
#else
  const auto stack = reinterpret_cast<uintptr_t>(thread_guard.stack);
#endif
  return reinterpret_cast<const void*>(stack);  // NOLINT(performance-no-int-to-ptr): a register's value
}

bool is_handler(const struct sigaction& action) noexcept {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

void on_fault(int signal, siginfo_t* info, void* context);

bool is_ours(const struct sigaction& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_fault;
}

/// Installs our handler in the kernel, with the flags and mask of the program's action.
int put_ours(int signal, const struct sigaction& program) noexcept {
  struct sigaction ours = program;
  ours.sa_sigaction = on_fault;
  if (is_handler(program)) {
    ours.sa_flags = (program.sa_flags | SA_SIGINFO) & ~kServesOnce;
  } else {
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
  }
  return __sigaction(signal, &ours, nullptr);
}

/// Returns the program's action. An action with SA_RESETHAND is used up by this.
struct sigaction take_program_action(int signal) noexcept {
  const Held held;
  struct sigaction& program = program_action(signal);
  const struct sigaction taken = program;
  if (is_handler(taken) && (taken.sa_flags & kServesOnce) != 0) {
    program.sa_flags &= ~SA_SIGINFO;
    program.sa_handler = SIG_DFL;
    (void)put_ours(signal, program);
  }
  return taken;
}

/// Ends the process as the kernel does for a signal without a handler: the signal is raised again when the
/// handler returns.
void end_by_default(int signal, siginfo_t* info) noexcept {
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  (void)__sigaction(signal, &none, nullptr);
  (void)syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info);
}

/// Blocks the signal in this thread and sends it to the process. Before its next guarded copy the thread
/// tries to unblock it.
void hand_to_program(int signal, siginfo_t* info, void* context) noexcept {
  sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
  forget_guard();
  // From a thread other than the main one, the kernel does not accept a signal that looks like one of kill().
  // The sender's pid stays in the signal.
  info->si_code = SI_QUEUE;
  (void)syscall(SYS_rt_sigqueueinfo, getpid(), signal, info);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;
  const struct sigaction program = take_program_action(signal);
  if (program.sa_handler == SIG_IGN && sent) return;
  if (sent && in_worker_thread()) return hand_to_program(signal, info, context);
  if (!is_handler(program)) return end_by_default(signal, info);
  program.sa_sigaction(signal, info, context);  // the kernel passes three arguments to every handler
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0 && leave_guarded_copy(stack_of(context))) {
    pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
    throw MemoryFault{};
  }
  const int before = errno;
  pass_on(signal, info, context);
  errno = before;
}

void install() {
  for (const int signal : kFaultSignals) {
    struct sigaction now {};
    WEFT_CHECK(__sigaction(signal, nullptr, &now) == 0, "sigaction");
    if (!is_ours(now)) program_action(signal) = now;  // in a child it may be ours: keeps the parent's
    WEFT_CHECK(put_ours(signal, program_action(signal)) == 0, "sigaction");
  }
}

bool blocks_a_fault(const sigset_t& blocked) noexcept {
  return sigismember(&blocked, SIGSEGV) != 0 || sigismember(&blocked, SIGBUS) != 0;
}

/// A signal that hand_to_program() blocked in one of our threads has reached a thread of the program when it
/// is no longer pending.
void unblock_in_worker() noexcept {
  sigset_t waiting;
  sigset_t faults;
  sigemptyset(&faults);
  sigpending(&waiting);
  for (const int signal : kFaultSignals) {
    if (sigismember(&waiting, signal) == 0) sigaddset(&faults, signal);
  }
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

}  // namespace

bool install_fault_handler() {
  if constexpr (!kHandlerCanThrow) return false;
  if (actions.owner.load(std::memory_order_acquire) == getpid()) return true;
  const Held held;
  if (actions.owner.load(std::memory_order_relaxed) == getpid()) return true;
  install();
  actions.owner.store(getpid(), std::memory_order_release);
  return true;
}

int set_program_action(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  const bool wanted = action != nullptr || old != nullptr;
  if (!wanted || actions.owner.load(std::memory_order_acquire) != getpid()) {
    const int answer = __sigaction(signal, action, old);
    // In a child of fork() or vfork() the kernel may have our handler; the action behind it is in the
    // parent's table.
    if (answer == 0 && old != nullptr && is_ours(*old)) *old = program_action(signal);
    return answer;
  }
  struct sigaction next {};
  if (action != nullptr) next = *action;
  struct sigaction before {};
  {
    const Held held;
    if (__sigaction(signal, nullptr, &before) == 0 && is_ours(before)) before = program_action(signal);
    if (action != nullptr) {
      program_action(signal) = next;
      (void)put_ours(signal, next);
    }
  }
  if (old != nullptr) *old = before;
  return 0;
}

bool faults_reach_us() noexcept {
  if constexpr (!kHandlerCanThrow) return false;
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (in_worker_thread() && blocks_a_fault(blocked)) {
    unblock_in_worker();
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  }
  if (blocks_a_fault(blocked)) return false;
  for (const int signal : kFaultSignals) {
    struct sigaction now {};
    if (__sigaction(signal, nullptr, &now) != 0 || !is_ours(now)) return false;
  }
  return true;
}

bool ask_for_signals() noexcept {
  GuardWay& way = thread_guard.way;
  if (way == GuardWay::kUnknown) way = faults_reach_us() ? GuardWay::kSignals : GuardWay::kKernel;
  return way == GuardWay::kSignals;
}

}  // namespace weft::adapter
