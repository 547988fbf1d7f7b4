// Signals that wait until something is changed back.
#include "tools/fault/held_signals.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using tools::HeldSignals;

/// What `weft fault freeze` does, in a process of its own. The signal comes before the wait.
void change_and_change_back(int signal, Duration time) {
  constexpr rlimit kNoCore{0, 0};
  setrlimit(RLIMIT_CORE, &kNoCore);
  {
    HeldSignals held;
    kill(getpid(), signal);
    const bool whole = held.wait(time);
    std::fprintf(stderr, "changed back after %s", whole ? "the whole time" : "a signal");
  }
  _exit(0);
}

TEST(HeldSignalsDeathTest, a_signal_ends_the_wait_and_acts_after_it) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    EXPECT_EXIT(change_and_change_back(signal, 20s), ::testing::KilledBySignal(signal),
                "changed back after a signal");
}

TEST(HeldSignalsDeathTest, a_reader_that_has_gone_does_not_end_the_wait) {
  EXPECT_EXIT(change_and_change_back(SIGPIPE, 1ms), ::testing::KilledBySignal(SIGPIPE),
              "changed back after the whole time");
}

TEST(HeldSignalsDeathTest, a_signal_that_is_ignored_is_ignored) {
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        change_and_change_back(SIGHUP, 1ms);
      },
      ::testing::ExitedWithCode(0), "changed back after the whole time");
}

TEST(HeldSignals, the_mask_is_as_before) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const HeldSignals held; }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
}

}  // namespace
}  // namespace weft::test
