// How it works: the kernel reports a fault in the thread that made it, at the instruction that made it. If
// that thread is in a guarded copy, the handler throws; the unwinder passes the signal frame, the copying
// function and its caller's call, as after any other throw. SA_NODEFER, because a handler that is left by an
// exception never gives its signal mask back. Nothing is locked or half done there: a guarded copy calls
// nothing but memcpy and checksum loops. The handler is inherited by fork(); a child has it, and its one
// thread's flag is that of the thread that forked, which was in no copy.
#include "adapter/memory/fault_handler.h"

#include <array>
#include <csignal>

#include "adapter/memory/guarded_copy.h"
#include "base/check.h"

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif

namespace weft::adapter {
namespace {

#if defined(WEFT_THREAD_SANITIZER)
constexpr bool kHandlerCanThrow = false;
#else
constexpr bool kHandlerCanThrow = true;
#endif
constexpr std::array kFaultSignals{SIGSEGV, SIGBUS};

/// What was there before, by place in kFaultSignals. Written before the handler can run.
struct sigaction& action_before(int signal) noexcept {
  static std::array<struct sigaction, kFaultSignals.size()> before{};
  return before[signal == kFaultSignals[0] ? 0 : 1];
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = action_before(signal);
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  // Once more without a handler: the instruction is repeated, and the process ends with the right cause.
  struct sigaction none {};
  none.sa_handler = SIG_DFL;
  (void)sigaction(signal, &none, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (leave_guarded_copy()) throw MemoryFault{};
  pass_on(signal, info, context);
}

bool install() {
  if constexpr (!kHandlerCanThrow) return false;
  for (const int signal : kFaultSignals) {
    WEFT_CHECK(sigaction(signal, nullptr, &action_before(signal)) == 0, "sigaction");
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    WEFT_CHECK(sigaction(signal, &ours, nullptr) == 0, "sigaction");
  }
  return true;
}

}  // namespace

bool install_fault_handler() {
  static const bool installed = install();
  return installed;
}

}  // namespace weft::adapter
