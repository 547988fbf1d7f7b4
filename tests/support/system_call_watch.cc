// How it works: a filter lets the kernel send SIGSYS in place of each system call, except of one made by the
// instruction behind kMade below, and of sigreturn. The handler looks, makes the call there, and puts the
// answer where the caller expects it.
#include "tests/support/system_call_watch.h"

#include <sys/syscall.h>
#include <ucontext.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include "tests/support/system_call_filter.h"

#if defined(__x86_64__)

extern "C" {
// NOLINTNEXTLINE(google-runtime-int): as syscall()
long weft_test_call(long number, const greg_t* arguments);
extern const char weft_test_call_made[];
}
asm(R"(
.text
.globl weft_test_call
.globl weft_test_call_made
weft_test_call:
  push %r12
  mov %rdi, %rax
  mov %rsi, %r12
  mov 0(%r12), %rdi
  mov 8(%r12), %rsi
  mov 16(%r12), %rdx
  mov 24(%r12), %r10
  mov 32(%r12), %r8
  mov 40(%r12), %r9
  syscall
weft_test_call_made:
  pop %r12
  ret
)");

namespace weft::test {
namespace {

LookAtCall g_look = nullptr;

void on_call(int /*signal*/, siginfo_t* info, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const std::array<greg_t, 6> arguments{registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                        registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
  g_look(info->si_syscall, arguments.data());
  registers[REG_RAX] = weft_test_call(info->si_syscall, arguments.data());
}

}  // namespace

bool watch_system_calls(LookAtCall look) {
  g_look = look;
  struct sigaction action {};
  action.sa_sigaction = on_call;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto made = reinterpret_cast<uintptr_t>(weft_test_call_made);
  const auto low = static_cast<uint32_t>(made);
  const auto high = static_cast<uint32_t>(made >> 32);
  constexpr uint32_t kAt = offsetof(seccomp_data, instruction_pointer);
  std::array<sock_filter, 8> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 4, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAt),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAt + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  }};
  return filter_system_calls(code);
}

}  // namespace weft::test

#else

namespace weft::test {

bool watch_system_calls(LookAtCall /*look*/) {
  return false;
}

}  // namespace weft::test

#endif
