#include "base/loop_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "base/process_guard.h"
#include "tests/support/rescue.h"

namespace weft {
namespace {

class Scripted final : public Pollable {
 public:
  int poll(Instant /*now*/) noexcept override {
    ++polls;
    if (all_at_once != 0) return std::exchange(all_at_once, 0);
    return work > 0 ? work-- : 0;
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    if (fd >= 0) out.push_back({fd, POLLIN, 0});
  }
  bool prepare_sleep() noexcept override {
    ++prepared;
    return quiet;
  }
  void finish_sleep() noexcept override { ++finished; }
  Instant deadline() const noexcept override { return due; }

  int work = 0;         // one piece a turn
  int all_at_once = 0;  // in the next turn
  int polls = 0;
  int prepared = 0;
  int finished = 0;
  bool quiet = true;
  int fd = -1;
  Instant due = kNever;
};

LoopConfig no_spin() {
  return {.spin = {.spin = Duration{0}}};
}

TEST(LoopRunner, works_before_it_sleeps) {
  const MonotonicClock clock;
  LoopRunner loop(clock, no_spin());
  Scripted core;
  core.work = 3;
  core.due = Instant::min();
  loop.add(core);
  for (int i = 0; i < 3; ++i) EXPECT_GT(loop.turn(), 0);
  EXPECT_EQ(core.prepared, 0);
  EXPECT_EQ(loop.turn(), 0);
  EXPECT_EQ(core.prepared, 1);
  EXPECT_EQ(core.finished, 1);
  EXPECT_EQ(loop.counters().get(LoopCounter::kSleeps), 1U);
  EXPECT_EQ(loop.counters().get(LoopCounter::kTurns), 4U);
  EXPECT_EQ(loop.counters().get(LoopCounter::kWorkingTurns), 3U);
}

TEST(LoopRunner, one_core_with_work_keeps_all_awake) {
  const MonotonicClock clock;
  LoopRunner loop(clock, no_spin());
  Scripted first;
  Scripted busy;
  Scripted last;
  busy.quiet = false;
  for (Scripted* core : {&first, &busy, &last}) loop.add(*core);
  loop.turn();
  EXPECT_EQ(loop.counters().get(LoopCounter::kSleeps), 0U);
  EXPECT_EQ(first.finished, 1);
  EXPECT_EQ(busy.finished, 1);
  EXPECT_EQ(last.finished, 0);
}

TEST(LoopRunner, a_descriptor_ends_the_sleep) {
  const MonotonicClock clock;
  LoopConfig config = no_spin();
  config.sleep_max = std::chrono::seconds(100);
  LoopRunner loop(clock, config);
  Scripted core;
  core.fd = eventfd(0, EFD_NONBLOCK);
  loop.add(core);
  std::thread waker([&] {
    const uint64_t one = 1;
    loop.stop();
    EXPECT_EQ(write(core.fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  });
  loop.turn();
  loop.run();
  waker.join();
  close(core.fd);
}

/// Somebody else has the core for a millisecond whenever the loop looks at it.
class LateClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override { return now_ += std::chrono::milliseconds(1); }

 private:
  mutable Instant now_{};
};

TEST(LoopRunner, late_yields_are_counted_and_shorten_the_window) {
  const LateClock clock;
  LoopConfig config;
  config.spin.spin = std::chrono::milliseconds(20);
  config.spin.busy_spans = 1;
  config.stall = std::chrono::milliseconds(2);
  LoopRunner loop(clock, config);
  Scripted core;
  core.due = Instant::min();
  core.work = 1;
  loop.add(core);
  loop.turn();
  const uint64_t first = loop.counters().get(LoopCounter::kLateYields);
  EXPECT_EQ(first, 1U) << "behind the work";
  int turns = 0;
  while (core.prepared == 0 && turns < 100) {
    loop.turn();
    ++turns;
  }
  const uint64_t late = loop.counters().get(LoopCounter::kLateYields) - first;
  EXPECT_EQ(late + 1, static_cast<uint64_t>(turns)) << "all turns but the one that slept";
  EXPECT_GT(late, 1U);
  EXPECT_LT(turns, 8) << "without them two clock readings a turn, ten turns";
  EXPECT_EQ(loop.counters().get(LoopCounter::kStalls), 0U) << "a yield is no part of the turn before it";
}

/// A core whose work takes as long as a test asks for.
class SlowCore final : public Pollable {
 public:
  SlowCore(ManualClock& clock, int work) : clock_(clock), work_(work) {}
  int poll(Instant /*now*/) noexcept override {
    clock_.advance(takes);
    return work_;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override { return Instant::min(); }

  Duration takes{};

 private:
  ManualClock& clock_;
  int work_;
};

uint64_t stalls_of(const LoopConfig& config, int work, Duration takes) {
  ManualClock clock;
  SlowCore core(clock, work);
  LoopRunner loop(clock, config);
  loop.add(core);
  core.takes = takes;
  loop.turn();
  core.takes = Duration{0};
  for (int i = 0; i < 3; ++i) loop.turn();
  return loop.counters().get(LoopCounter::kStalls);
}

TEST(LoopRunner, a_turn_with_work_that_takes_too_long_is_counted_once) {
  const LoopConfig config = no_spin();
  EXPECT_EQ(stalls_of(config, 1, config.stall + Duration(1)), 1U);
  EXPECT_EQ(stalls_of(config, 1, config.stall), 0U);
  EXPECT_EQ(stalls_of(config, 0, config.stall + Duration(1)), 0U) << "a sleep is no work";
}

constexpr Duration kOnce = std::chrono::hours(1);

/// A loop whose one core is given work at the pace that a test asks for.
class LoopRunnerAtPace : public ::testing::Test {
 protected:
  LoopRunnerAtPace() {
    core_.due = Instant::min();
    loop_.add(core_);
  }
  uint64_t count(LoopCounter counter) { return loop_.counters().get(counter); }

  /// One piece of work at every `pause` for as long as `lasting`, a turn each 10 us; returns how often the
  /// loop yielded and leaves it idle.
  uint64_t yields_for(Duration lasting, Duration pause) {
    const uint64_t before = count(LoopCounter::kYields);
    const Instant end = clock_.now() + lasting;
    Instant next = clock_.now();
    for (; clock_.now() < end; clock_.advance(std::chrono::microseconds(10))) {
      if (clock_.now() >= next) {
        core_.work = 1;
        next += pause;
      }
      loop_.turn();
    }
    return count(LoopCounter::kYields) - before;
  }
  /// One turn that finds so many pieces of work; returns how often it yielded.
  uint64_t yields_behind(int work) {
    const uint64_t before = count(LoopCounter::kYields);
    core_.all_at_once = work;
    EXPECT_EQ(loop_.turn(), work);
    return count(LoopCounter::kYields) - before;
  }

 private:
  ManualClock clock_;
  Scripted core_;
  // Yields wherever it may: which of them are made is YieldPolicy's.
  LoopRunner loop_{clock_, {.spin = {}, .yield = {.keep = Duration{0}}}};
};

TEST_F(LoopRunnerAtPace, an_idle_fabric_is_never_yielded_for) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  // A keepalive and what follows it: a handful of turns with work, twice a second.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(yields_for(microseconds(300), microseconds(50)), 0U);
    EXPECT_EQ(yields_for(milliseconds(500), kOnce), 0U);
  }
  // Timers that find nothing to do are no work.
  EXPECT_GT(count(LoopCounter::kSleeps), 0U);
}

TEST_F(LoopRunnerAtPace, sixty_idle_sessions_are_no_traffic) {
  using std::chrono::milliseconds;
  // Their messages come to the switch 4 to 8 ms apart; a round trip of one of them is three turns with work.
  uint64_t yields = 0;
  for (int i = 0; i < 160; ++i) {
    yields += yields_for(std::chrono::microseconds(150), std::chrono::microseconds(50));
    yields += yields_for(milliseconds(4 + i % 5), kOnce);
  }
  EXPECT_EQ(yields, 0U);
}

TEST_F(LoopRunnerAtPace, traffic_is_spun_for_until_its_window_is_over) {
  using std::chrono::milliseconds;
  EXPECT_EQ(yields_for(milliseconds(8), milliseconds(1)), 0U) << "not yet for long enough";
  EXPECT_EQ(yields_for(milliseconds(100), milliseconds(1)), 100U * 100U)
      << "every turn, with little work or none";
  const uint64_t slept = count(LoopCounter::kSleeps);
  EXPECT_GT(yields_for(milliseconds(3), kOnce), 150U);
  EXPECT_GT(count(LoopCounter::kSleeps), slept) << "the window of 2 ms is over";
  EXPECT_GT(yields_for(milliseconds(2), kOnce), 150U) << "one late packet: it goes on";
  EXPECT_EQ(yields_for(milliseconds(16), kOnce), 201U) << "its window, and a pause";
  // After a pause that long a few pieces of work are no traffic again.
  EXPECT_EQ(yields_for(milliseconds(7), milliseconds(1)), 0U);
}

/// What one piece of work is for may wait for this core; a stream fills the next turn as well.
TEST_F(LoopRunnerAtPace, a_turn_that_moved_little_yields_before_the_next_looks) {
  EXPECT_EQ(yields_behind(1), 0U) << "no traffic yet";
  yields_for(std::chrono::milliseconds(20), std::chrono::milliseconds(1));
  EXPECT_EQ(yields_behind(1), 1U);
  EXPECT_EQ(yields_behind(SpinConfig{}.little), 1U);
  EXPECT_EQ(yields_behind(SpinConfig{}.little + 1), 0U);
}

/// Traffic, and then pieces of work that are found behind a yield of `away` each; true when it still yields.
bool yields_after(SpinPolicy& spin, Instant& now, int times, Duration away, int work) {
  for (int i = 0; i < times; ++i) {
    static_cast<void>(spin.yields(now));
    static_cast<void>(spin.yielded(now, now + away));
    now += away;
    spin.worked(now, work);
    now += std::chrono::microseconds(1);
  }
  return spin.yields(now);
}

TEST(SpinPolicy, who_loses_a_time_slice_with_each_yield_sleeps_for_a_while) {
  using std::chrono::milliseconds;
  const SpinConfig config;
  SpinPolicy spin(config);
  Instant now = Instant{} + std::chrono::seconds(1);
  ASSERT_TRUE(yields_after(spin, now, 100, std::chrono::microseconds(100), 1)) << "late, but no slice";
  EXPECT_TRUE(yields_after(spin, now, config.lost_most - 1, milliseconds(1), 1));
  EXPECT_FALSE(yields_after(spin, now, 1, milliseconds(1), 1));
  const Instant over = now + config.rest;
  for (; now < over - milliseconds(1); now += milliseconds(1)) {
    spin.worked(now, 1);
    ASSERT_FALSE(spin.yields_at_once(now, 1));
    ASSERT_FALSE(spin.yields(now));
  }
  now = over;
  spin.worked(now, 1);
  EXPECT_TRUE(spin.yields(now)) << "the core may be free again";
}

TEST(SpinPolicy, yields_go_on_beside_one_that_comes_back_at_once_and_for_a_stream) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  const SpinConfig config;
  SpinPolicy spin(config);
  Instant now = Instant{} + std::chrono::seconds(1);
  ASSERT_TRUE(yields_after(spin, now, 100, microseconds(100), 1));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(yields_after(spin, now, config.lost_most - 1, milliseconds(1), 1)) << i;
    ASSERT_TRUE(yields_after(spin, now, 1, microseconds(1), 1)) << i;
  }
  EXPECT_TRUE(yields_after(spin, now, 10, milliseconds(1), config.little + 1))
      << "a burst had waited each time";
}

TEST(SpinPolicy, lost_yields_that_are_rare_are_not_on_end) {
  using std::chrono::milliseconds;
  const SpinConfig config;
  SpinPolicy spin(config);
  Instant now = Instant{} + std::chrono::seconds(1);
  ASSERT_TRUE(yields_after(spin, now, 100, std::chrono::microseconds(100), 1));
  // No yield comes back soon between them: work is found without any.
  for (int lost = 0; lost < 3 * config.lost_most; ++lost) {
    ASSERT_TRUE(yields_after(spin, now, 1, milliseconds(3), 1)) << lost;
    for (int span = 0; span < 3 * config.lost_apart + 1; ++span) {
      now += milliseconds(1);
      spin.worked(now, 1);
    }
  }
}

TEST(ProcessGuard, the_end_of_the_parent_ends_the_loop) {
  const MonotonicClock clock;
  LoopRunner loop(clock);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  auto guard = ProcessGuard::create(loop, ends[0]);
  ASSERT_TRUE(guard.ok());
  loop.add(**guard);
  close(ends[1]);
  loop.run();
  close(ends[0]);
}

/// All children of a launcher share the open file of that pipe, so each of them can change its flags.
TEST(ProcessGuard, another_child_cannot_make_it_wait_for_the_parent) {
  const MonotonicClock clock;
  LoopRunner loop(clock);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  auto guard = ProcessGuard::create(loop, ends[0]);
  ASSERT_TRUE(guard.ok());
  ASSERT_EQ(fcntl(ends[0], F_SETFL, fcntl(ends[0], F_GETFL) & ~O_NONBLOCK), 0);
  EXPECT_TRUE(test::returns_by_itself([&] { (*guard)->poll(clock.now()); },
                                      [&] { EXPECT_EQ(write(ends[1], "x", 1), 1); }));
  close(ends[1]);
  close(ends[0]);
}

}  // namespace
}  // namespace weft
