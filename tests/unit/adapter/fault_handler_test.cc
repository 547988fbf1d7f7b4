// The process's handler for SIGSEGV and SIGBUS: what is not about a guarded copy goes the program's way, as
// if the handler were not there. Each case runs in a child process, which its signals may end. Under the
// thread sanitizer the handler is not installed, and these tests are skipped.
#include "adapter/memory/fault_handler.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "adapter/memory/guarded_copy.h"
#include "adapter/memory/kernel_copy.h"
#include "adapter/memory/memory_probe.h"
#include "adapter/memory/plain_copy.h"
#include "base/worker_thread.h"

namespace weft::adapter {
namespace {

constexpr size_t kPage = 4096;
using Handler = void (*)(int, siginfo_t*, void*);

struct sigaction action_of(Handler handler, int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return action;
}
struct sigaction simple(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  return action;
}
void set(const struct sigaction& action) {
  for (const int signal : {SIGSEGV, SIGBUS}) ASSERT_EQ(set_program_action(signal, &action, nullptr), 0);
}
std::byte* pages(size_t count) {
  void* at = mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<std::byte*>(at);
}
bool blocks(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}
void fault() {
  std::byte* hole = pages(1);
  munmap(hole, kPage);
  *static_cast<volatile std::byte*>(hole) = std::byte{1};
}
void send_to_self() {
  kill(getpid(), SIGSEGV);
}

std::atomic<int> calls{0};
std::atomic<bool> right{true};

class FaultHandler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!install_fault_handler()) GTEST_SKIP() << "the thread sanitizer owns the signals";
  }
  /// Exit code of a child that does `act` with the handler installed; minus the signal that ended it.
  static int outcome(const std::function<void()>& act) {
    const pid_t child = fork();
    if (child == 0) {
      install_fault_handler();
      set(simple(SIG_DFL));
      act();
      _exit(::testing::Test::HasFailure() || !right ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
};

TEST_F(FaultHandler, a_signal_that_is_sent_ends_a_process_without_a_handler) {
  EXPECT_EQ(outcome(send_to_self), -SIGSEGV);
  EXPECT_EQ(outcome([] { kill(getpid(), SIGBUS); }), -SIGBUS);
  EXPECT_EQ(outcome([] { pthread_kill(pthread_self(), SIGSEGV); }), -SIGSEGV);
}

TEST_F(FaultHandler, a_fault_outside_of_copies_ends_a_process_without_a_handler) {
  EXPECT_EQ(outcome(fault), -SIGSEGV);
}

TEST_F(FaultHandler, what_is_ignored_stays_ignored_when_sent_and_ends_the_process_as_a_fault) {
  EXPECT_EQ(outcome([] {
              set(simple(SIG_IGN));
              send_to_self();
            }),
            0);
  EXPECT_EQ(outcome([] {
              set(simple(SIG_IGN));
              fault();
            }),
            -SIGSEGV);
}

TEST_F(FaultHandler, the_programs_handler_gets_what_the_kernel_says) {
  EXPECT_EQ(outcome([] {
              set(action_of([](int signal, siginfo_t* info, void* context) {
                right = signal == SIGSEGV && info->si_pid == getpid() && context != nullptr;
                ++calls;
              }));
              send_to_self();
              EXPECT_EQ(calls, 1);
            }),
            0);
}

TEST_F(FaultHandler, a_handler_that_serves_once_serves_once) {
  EXPECT_EQ(outcome([] {
              set(action_of([](int, siginfo_t*, void*) { ++calls; }, static_cast<int>(SA_RESETHAND)));
              send_to_self();
              EXPECT_EQ(calls, 1);
              struct sigaction now {};
              set_program_action(SIGSEGV, nullptr, &now);
              EXPECT_EQ(now.sa_handler, SIG_DFL);
              send_to_self();
            }),
            -SIGSEGV);
}

TEST_F(FaultHandler, the_mask_of_the_programs_action_holds_while_its_handler_runs) {
  for (const bool nested : {false, true}) {
    EXPECT_EQ(outcome([nested] {
                struct sigaction action = nested ? action_of(
                                                       [](int, siginfo_t*, void*) {
                                                         right = blocks(SIGUSR1) && !blocks(SIGSEGV);
                                                         ++calls;
                                                       },
                                                       SA_NODEFER)
                                                 : action_of([](int, siginfo_t*, void*) {
                                                     right = blocks(SIGUSR1) && blocks(SIGSEGV);
                                                     ++calls;
                                                   });
                sigaddset(&action.sa_mask, SIGUSR1);
                set(action);
                send_to_self();
                EXPECT_EQ(calls, 1);
                EXPECT_FALSE(blocks(SIGUSR1) || blocks(SIGSEGV));
              }),
              0);
  }
}

TEST_F(FaultHandler, a_handler_runs_on_the_stack_that_the_program_chose) {
  static std::byte* stack = nullptr;
  static bool on_stack = false;
  for (const bool wanted : {false, true}) {
    EXPECT_EQ(outcome([wanted] {
                constexpr size_t kBytes = 64 * kPage;
                stack = pages(64);
                const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = kBytes};
                ASSERT_EQ(sigaltstack(&other, nullptr), 0);
                set(action_of(
                    [](int, siginfo_t*, void*) {
                      const std::byte here{};
                      on_stack = &here >= stack && &here < stack + kBytes;
                    },
                    wanted ? SA_ONSTACK : 0));
                send_to_self();
                EXPECT_EQ(on_stack, wanted);
                // Out of a copy the handler is left from either stack.
                std::byte* gone = pages(1);
                munmap(gone, kPage);
                EXPECT_THROW(copy_guarded(gone, stack, 64), MemoryFault);
                EXPECT_FALSE(blocks(SIGSEGV));
              }),
              0);
  }
}

TEST_F(FaultHandler, the_program_sees_its_own_action) {
  EXPECT_EQ(outcome([] {
              const Handler mine = [](int, siginfo_t*, void*) {};
              set(action_of(mine, SA_NODEFER));
              struct sigaction old {};
              const struct sigaction next = simple(SIG_IGN);
              ASSERT_EQ(set_program_action(SIGSEGV, &next, &old), 0);
              EXPECT_EQ(old.sa_sigaction, mine);
              EXPECT_EQ(old.sa_flags & (SA_NODEFER | SA_SIGINFO), SA_NODEFER | SA_SIGINFO);
              EXPECT_TRUE(faults_reach_us());
            }),
            0);
}

TEST_F(FaultHandler, a_handler_that_was_there_before_is_the_programs) {
  const pid_t child = fork();
  if (child == 0) {
    struct sigaction before = action_of([](int, siginfo_t*, void*) { ++calls; });
    sigaction(SIGSEGV, &before, nullptr);
    install_fault_handler();
    send_to_self();
    std::byte* gone = pages(1);
    munmap(gone, kPage);
    EXPECT_THROW(copy_guarded(gone, reinterpret_cast<std::byte*>(&before), 64), MemoryFault);
    _exit(calls == 1 && !::testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

sigjmp_buf back;
std::byte* hole = nullptr;
std::atomic<bool> probing{false};

/// As a JVM or a profiler does: a timer's handler reads where nothing is and comes back by its fault handler.
TEST_F(FaultHandler, a_probe_of_the_program_amid_a_copy_has_its_own_fault) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the address sanitizer copies by a function of its own, whose stack is not that of a copy";
#endif
#endif
  EXPECT_EQ(outcome([] {
              hole = pages(1);
              ASSERT_EQ(mprotect(hole, kPage, PROT_NONE), 0);
              set(action_of([](int, siginfo_t*, void*) {
                ++calls;
                if (probing) siglongjmp(back, 1);
                right = false;
              }));
              struct sigaction timer = simple([](int) {
                if (sigsetjmp(back, 1) == 0) {
                  probing = true;
                  static_cast<void>(*static_cast<volatile std::byte*>(hole));
                }
                probing = false;
              });
              ASSERT_EQ(sigaction(SIGALRM, &timer, nullptr), 0);
              constexpr size_t kBytes = size_t{16} << 20;
              std::vector<std::byte> from(kBytes, std::byte{0x5A});
              std::vector<std::byte> to(kBytes);
              const itimerval every{{0, 500}, {0, 500}};
              ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
              for (int i = 0; i < 10'000 && calls < 20; ++i) copy_guarded(to.data(), from.data(), kBytes);
              const itimerval never{};
              setitimer(ITIMER_REAL, &never, nullptr);
              EXPECT_GE(calls, 20);
              EXPECT_EQ(to, from);
            }),
            0);
}

TEST_F(FaultHandler, a_signal_that_is_sent_amid_a_copy_is_the_programs) {
  EXPECT_EQ(outcome([] {
              set(action_of([](int, siginfo_t* info, void*) {
                right = info->si_code <= 0;
                ++calls;
              }));
              std::vector<std::byte> memory(size_t{32} << 20);
              const size_t half = memory.size() / 2;
              std::atomic<bool> done{false};
              const pthread_t self = pthread_self();
              std::thread sender([&] {
                for (int i = 0; i < 50; ++i) pthread_kill(self, SIGSEGV), usleep(200);
                done = true;
              });
              while (!done) copy_guarded(memory.data(), memory.data() + half, half);
              sender.join();
              EXPECT_GE(calls, 1);
            }),
            0);
}

TEST_F(FaultHandler, blocked_signals_and_other_handlers_leave_the_copies_to_the_kernel) {
  EXPECT_EQ(outcome([] {
              std::byte* gone = pages(1);
              std::vector<std::byte> memory(64);
              // Not unmapped: what runs meanwhile, a sanitizer's runtime too, could map something else there.
              ASSERT_EQ(mprotect(gone, kPage, PROT_NONE), 0);
              const auto copies_fail = [&] {
                thread_guard.way = GuardWay::kUnknown;
                EXPECT_THROW(copy_guarded(gone, memory.data(), 64), MemoryFault);
                EXPECT_THROW(static_cast<void>(crc_copy_guarded(0, memory.data(), gone, 64)), MemoryFault);
                EXPECT_THROW(static_cast<void>(crc_guarded(0, gone, 64)), MemoryFault);
                EXPECT_THROW(static_cast<void>(fetch_add_guarded(gone, 1)), MemoryFault);
                EXPECT_THROW(static_cast<void>(compare_swap_guarded(gone, 0, 1)), MemoryFault);
                return thread_guard.way;
              };
              EXPECT_EQ(copies_fail(), GuardWay::kSignals);
              sigset_t all;
              sigfillset(&all);
              pthread_sigmask(SIG_SETMASK, &all, nullptr);
              EXPECT_EQ(copies_fail(), GuardWay::kKernel);
              sigemptyset(&all);
              pthread_sigmask(SIG_SETMASK, &all, nullptr);
              EXPECT_EQ(copies_fail(), GuardWay::kSignals);
              struct sigaction other = action_of([](int, siginfo_t*, void*) { _exit(9); });
              sigaction(SIGBUS, &other, nullptr);
              EXPECT_EQ(copies_fail(), GuardWay::kKernel);
              sigaction(SIGSEGV, &other, nullptr);
              EXPECT_EQ(copies_fail(), GuardWay::kKernel);
              // An action that is set by way of us puts ours back.
              set(other);
              EXPECT_EQ(copies_fail(), GuardWay::kSignals);
            }),
            0);
}

TEST_F(FaultHandler, a_thread_asks_again_after_a_while) {
  forget_guard();
  const Instant start{std::chrono::seconds(5)};
  refresh_guard(start);
  EXPECT_EQ(thread_guard.way, GuardWay::kSignals);
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_BLOCK, &faults, nullptr);
  refresh_guard(start + kGuardPeriod - Duration(1));
  EXPECT_EQ(thread_guard.way, GuardWay::kSignals);
  refresh_guard(start + kGuardPeriod);
  EXPECT_EQ(thread_guard.way, GuardWay::kKernel);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
  forget_guard();
}

TEST_F(FaultHandler, what_is_sent_to_the_process_comes_in_threads_of_the_program) {
  EXPECT_EQ(outcome([] {
              static std::atomic<bool> stop{false};
              static std::atomic<pid_t> came_in{0};
              set(action_of([](int, siginfo_t*, void*) { came_in = gettid(); }));
              sigset_t faults;
              sigemptyset(&faults);
              sigaddset(&faults, SIGSEGV);
              pthread_sigmask(SIG_BLOCK, &faults, nullptr);
              pthread_t worker{};
              const auto run = [](void* hears) -> void* {
                right = in_worker_thread() && !blocks(SIGSEGV) && !blocks(SIGBUS) && blocks(SIGTERM);
                static_cast<std::atomic<int>*>(hears)->store(1);
                while (!stop) usleep(100);
                // The signal has gone to the program: faults are ours again.
                thread_guard.way = GuardWay::kUnknown;
                right = right && ask_for_signals();
                return nullptr;
              };
              std::atomic<int> runs{0};
              ASSERT_EQ(start_worker(worker, "worker", run, &runs), 0);
              while (runs == 0) usleep(100);
              send_to_self();
              sigset_t waits;
              do {
                sigpending(&waits);
              } while (sigismember(&waits, SIGSEGV) == 0);
              EXPECT_EQ(came_in, 0) << "it waits, as without us";
              pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
              // The worker may have been on its way with the signal when it was first seen waiting.
              for (int left = 100'000; came_in == 0 && left > 0; --left) usleep(100);
              EXPECT_EQ(came_in, getpid()) << "in the main thread";
              stop = true;
              pthread_join(worker, nullptr);
            }),
            0);
}

TEST_F(FaultHandler, a_child_that_shares_memory_leaves_the_parents_action_alone) {
  EXPECT_EQ(outcome([] {
              const Handler mine = [](int, siginfo_t*, void*) { ++calls; };
              set(action_of(mine));
              const pid_t child = vfork();
              if (child == 0) {
                struct sigaction none {};
                none.sa_handler = SIG_DFL;
                set_program_action(SIGSEGV, &none, nullptr);
                _exit(0);
              }
              int status = 0;
              ASSERT_EQ(waitpid(child, &status, 0), child);
              struct sigaction now {};
              set_program_action(SIGSEGV, nullptr, &now);
              EXPECT_EQ(now.sa_sigaction, mine);
              send_to_self();
              EXPECT_EQ(calls, 1);
            }),
            0);
}

// ---- copies by the kernel --------------------

class KernelCopy : public ::testing::Test {
 protected:
  /// Three pages, the middle one without memory; a message from amid the first to amid the last.
  void SetUp() override {
    target = pages(3);
    std::memset(target, 0x11, 3 * kPage);
    munmap(target + kPage, kPage);
  }
  void TearDown() override {
    munmap(target, kPage);
    munmap(target + 2 * kPage, kPage);
    thread_guard.way = GuardWay::kUnknown;
  }
  static constexpr size_t kBegin = kPage - 100;
  static constexpr size_t kBytes = kPage + 207;
  std::byte* target = nullptr;
  std::vector<std::byte> message = std::vector<std::byte>(kBytes, std::byte{0x22});
};

TEST_F(KernelCopy, what_is_there_is_copied_exactly_when_a_transfer_is_finished) {
  const FinishWithoutMemory finish;
  copy_guarded(target + kBegin, message.data(), kBytes);
  EXPECT_EQ(target[kBegin - 1], std::byte{0x11});
  EXPECT_EQ(target[kBegin], std::byte{0x22});
  EXPECT_EQ(target[kPage - 1], std::byte{0x22});
  EXPECT_EQ(target[2 * kPage + 106], std::byte{0x22});
  EXPECT_EQ(target[2 * kPage + 107], std::byte{0x11});
  std::vector<std::byte> read(kBytes, std::byte{0x33});
  (void)crc_copy_guarded(0, read.data(), target + kBegin, kBytes);
  EXPECT_EQ(read[99], std::byte{0x22});
  EXPECT_EQ(read[100], std::byte{0});
  EXPECT_EQ(read[kPage + 99], std::byte{0});
  EXPECT_EQ(read[kPage + 100], std::byte{0x22});
  EXPECT_EQ(fetch_add_guarded(target + kPage, 1), 0U);
  EXPECT_EQ(fetch_add_guarded(target, 1), 0x1111111111111111U);
  EXPECT_EQ(fetch_add_guarded(target, 0), 0x1111111111111112U);
}

TEST_F(KernelCopy, the_sums_are_those_of_plain_copies) {
  std::vector<std::byte> copied(kBytes);
  thread_guard.way = GuardWay::kSignals;
  const uint32_t plain = crc_guarded(7, message.data(), kBytes);
  thread_guard.way = GuardWay::kKernel;
  EXPECT_EQ(crc_guarded(7, message.data(), kBytes), plain);
  EXPECT_EQ(crc_copy_guarded(7, copied.data(), message.data(), kBytes), plain);
  EXPECT_EQ(copied, message);
}

TEST_F(KernelCopy, memory_is_looked_at_without_a_change) {
  EXPECT_TRUE(can_read(target) && can_write(target) && is_mapped(target, kPage));
  EXPECT_FALSE(can_read(target + kPage) || can_write(target + kPage));
  EXPECT_FALSE(is_mapped(target + 10, 2 * kPage));
  ASSERT_EQ(mprotect(target, kPage, PROT_READ), 0);
  EXPECT_TRUE(can_read(target + 3));
  EXPECT_FALSE(can_write(target + 3));
  ASSERT_EQ(mprotect(target, kPage, PROT_NONE), 0);
  EXPECT_FALSE(can_read(target));
  EXPECT_EQ(target[2 * kPage], std::byte{0x11});
}

TEST(LastWord, is_the_aligned_word_that_ends_the_range) {
  alignas(8) static std::byte memory[32];
  EXPECT_EQ(last_word_bytes(memory, 16), 8U);
  EXPECT_EQ(last_word_bytes(memory + 3, 13), 8U);
  EXPECT_EQ(last_word_bytes(memory, 12), 4U);
  EXPECT_EQ(last_word_bytes(memory, 14), 2U);
  EXPECT_EQ(last_word_bytes(memory, 15), 1U);
  EXPECT_EQ(last_word_bytes(memory + 3, 5), 4U) << "no more than there is";
  EXPECT_EQ(last_word_bytes(memory + 7, 1), 1U);
}

TEST(LastWord, copies_of_every_length_and_place_are_whole) {
  std::byte from[80];
  for (size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<std::byte>(i + 1);
  for (size_t at = 0; at < 9; ++at) {
    for (size_t bytes = 0; bytes <= 64; ++bytes) {
      std::byte to[80]{};
      copy_guarded(to + at, from, bytes);
      ASSERT_EQ(std::memcmp(to + at, from, bytes), 0) << at << " " << bytes;
      ASSERT_EQ(to[at + bytes], std::byte{0});
    }
  }
}

}  // namespace
}  // namespace weft::adapter
