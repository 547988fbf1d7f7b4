// How a thread that polls shares its core: cores and processes are played, in virtual time.
#include "base/yield_policy.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr Duration kPoll = nanoseconds(100);
constexpr Duration kChange = nanoseconds(1300);  // from one process to another
constexpr Duration kInVain = nanoseconds(450);   // a yield, when nobody else wants the core

/// A thread, and what it waits for.
struct Played {
  YieldPolicy policy;
  Instant now = Instant{} + std::chrono::seconds(1);
  int yields = 0;

  /// What it waits for comes after `ready` by itself.
  /// @return how long the wait took
  Duration wait_for_other_core(Duration ready, bool wanted = false) {
    const Instant begin = now;
    while (now - begin < ready) {
      now += kPoll;
      if (now - begin < ready && policy.yields(now)) give(wanted ? 2 * kChange : kInVain);
    }
    policy.worked(now);
    return now - begin;
  }
  /// What it waits for comes when it has given its core away, and not before.
  Duration wait_for_this_core() {
    const Instant begin = now;
    for (;;) {
      now += kPoll;
      if (policy.yields(now)) break;
    }
    give(2 * kChange);
    policy.worked(now);
    return now - begin;
  }
  void give(Duration away) {
    ++yields;
    policy.yielded(now, now + away);
    now += away;
  }
};

TEST(YieldPolicy, who_has_the_core_alone_keeps_it) {
  Played thread;
  for (int i = 0; i < 100; ++i) static_cast<void>(thread.wait_for_other_core(microseconds(1)));
  EXPECT_LE(thread.yields, 4) << "one in 50 us";
  thread.yields = 0;
  static_cast<void>(thread.wait_for_other_core(microseconds(245)));
  EXPECT_GE(thread.yields, 90) << "somebody may come";
  EXPECT_LE(thread.yields, 101) << "2 us and a yield in turn";
}

TEST(YieldPolicy, who_waits_for_its_own_core_gives_it_at_once) {
  Played thread;
  for (int i = 0; i < 100; ++i) static_cast<void>(thread.wait_for_this_core());
  Duration took{};
  for (int i = 0; i < 160; ++i) took += thread.wait_for_this_core();
  EXPECT_LE(took, 160 * (kPoll + 2 * kChange) + 11 * microseconds(2)) << "a try in seventeen at most";
}

TEST(YieldPolicy, a_peer_that_moves_to_another_core_is_noticed) {
  Played thread;
  for (int i = 0; i < 100; ++i) static_cast<void>(thread.wait_for_this_core());
  // The core is wanted by somebody else: each yield is two changes of process in vain.
  for (int i = 0; i < 200; ++i) static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
  thread.yields = 0;
  for (int i = 0; i < 200; ++i) static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
  EXPECT_LE(thread.yields, 20) << "one in 50 us, and what it has to learn again from each";
}

/// A switch has its core together with one of two programs that send each other messages in turn.
TEST(YieldPolicy, waits_for_the_own_core_and_for_another_one_in_turn_are_told_apart) {
  Played thread;
  for (int i = 0; i < 200; ++i) {
    static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
    static_cast<void>(thread.wait_for_this_core());
  }
  int in_vain = 0;
  Duration lost{};
  for (int i = 0; i < 200; ++i) {
    thread.yields = 0;
    static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
    in_vain += thread.yields;
    lost += thread.wait_for_this_core() - kPoll - 2 * kChange;
  }
  EXPECT_LE(in_vain, 20);
  EXPECT_LE(lost, 30 * microseconds(2)) << "a wait that keeps the core in vain loses 2 us";
}

/// Cells that follow each other closely are taken some at a time: between them is a yield, not polls.
TEST(YieldPolicy, a_stream_is_yielded_for) {
  Played thread;
  thread.policy = YieldPolicy({.soon = nanoseconds(250)});
  for (int i = 0; i < 100; ++i) static_cast<void>(thread.wait_for_other_core(nanoseconds(150)));
  thread.yields = 0;
  for (int i = 0; i < 160; ++i) static_cast<void>(thread.wait_for_other_core(nanoseconds(150)));
  EXPECT_GE(thread.yields, 149) << "a try in seventeen at most";
}

/// One that others want the core from: whoever tries to keep it finds the stream again, four times on end.
TEST(YieldPolicy, a_stream_is_seldom_tried_beside_others) {
  Played thread;
  thread.policy = YieldPolicy({.soon = nanoseconds(250)});
  for (int i = 0; i < 100; ++i) static_cast<void>(thread.wait_for_other_core(nanoseconds(150), true));
  thread.yields = 0;
  for (int i = 0; i < 850; ++i) static_cast<void>(thread.wait_for_other_core(nanoseconds(150), true));
  EXPECT_GE(thread.yields, 850 - 11 * 4) << "four polls for each 81 waits";
}

/// A switch beside one of two programs: the other one's acknowledgement and its answer come one after the
/// other, the answer sometimes at once, and then the first one's message, which needs this core.
TEST(YieldPolicy, an_answer_that_follows_its_acknowledgement_is_no_stream) {
  Played thread;
  thread.policy = YieldPolicy({.soon = nanoseconds(250)});
  // There was a stream, and what has been learnt is of that: to yield, whatever it is that is waited for.
  for (int i = 0; i < 200; ++i) static_cast<void>(thread.wait_for_other_core(nanoseconds(150), true));
  const auto round = [&](int i) {
    static_cast<void>(thread.wait_for_other_core(nanoseconds(700), true));
    static_cast<void>(thread.wait_for_other_core(nanoseconds(i % 3 == 0 ? 500 : 250), true));
    const int in_vain = thread.yields;
    static_cast<void>(thread.wait_for_this_core());
    return in_vain;
  };
  for (int i = 0; i < 40; ++i) static_cast<void>(round(i));
  int in_vain = 0;
  for (int i = 0; i < 200; ++i) {
    thread.yields = 0;
    in_vain += round(i);
  }
  EXPECT_LE(in_vain, 30) << "one in 50 us";
}

/// All waits of one kind keep the core, all of the other one give it, and at first every one gives it: tries
/// come to both kinds.
TEST(YieldPolicy, each_of_two_kinds_in_turn_has_its_try) {
  Played thread;
  for (int i = 0; i < 200; ++i) static_cast<void>(thread.wait_for_this_core());
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
    static_cast<void>(thread.wait_for_this_core());
  }
  int in_vain = 0;
  for (int i = 0; i < 100; ++i) {
    thread.yields = 0;
    static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
    in_vain += thread.yields;
    static_cast<void>(thread.wait_for_this_core());
  }
  EXPECT_LE(in_vain, 15);
}

TEST(YieldPolicy, who_is_never_kept_waiting_for_long_yields_all_the_same) {
  Played thread;
  const Instant begin = thread.now;
  for (int i = 0; i < 1000; ++i) static_cast<void>(thread.wait_for_other_core(microseconds(1), true));
  EXPECT_GE(thread.yields, (thread.now - begin) / microseconds(60));
}

}  // namespace
}  // namespace weft
