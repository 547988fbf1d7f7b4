// Which windows get a turn: few all the time, of many those that are used or whose bells ring, and each once
// a millisecond.
#include "adapter/transport/direct/direct_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace weft::test {
using adapter::DirectWatch;
using adapter::WatchedWord;
namespace {

using namespace std::chrono_literals;

/// 100 windows that have had their first turn.
class DirectWatches : public ::testing::Test {
 protected:
  DirectWatches() {
    for (size_t i = 0; i < bells.size(); ++i) watch.add();
    (void)turn();
    for (uint32_t i = 0; i < adapter::kTurnsUntilQuiet; ++i) EXPECT_TRUE(turn().empty());
  }
  /// The places of one turn, each of which then rests.
  std::vector<uint32_t> turn(Instant due = kNever) {
    const auto called = watch.call(now);
    std::vector<uint32_t> out(called.begin(), called.end());
    for (const uint32_t place : out)
      watch.rested(place, WatchedWord(&bells.at(place)), WatchedWord(&heads.at(place)), due);
    return out;
  }
  static bool has(const std::vector<uint32_t>& places, uint32_t place) {
    return std::find(places.begin(), places.end(), place) != places.end();
  }

  DirectWatch watch;
  std::array<std::atomic<uint64_t>, 100> bells{};
  std::array<std::atomic<uint64_t>, 100> heads{};
  Instant now{1s};
};

TEST_F(DirectWatches, a_bell_among_quiet_windows_is_heard_after_some_turns_and_then_at_once) {
  bells[63].fetch_add(1);
  size_t turns = 1;
  while (!has(turn(), 63) && turns < 100) ++turns;
  EXPECT_LE(turns, 100 / adapter::kQuietPerTurn + 1);
  bells[63].fetch_add(1);
  EXPECT_EQ(turn(), std::vector<uint32_t>{63});
  EXPECT_TRUE(turn().empty());
}

/// Its record is taken without a turn.
TEST_F(DirectWatches, a_record_alone_is_told_from_other_causes) {
  watch.touch(63);
  ASSERT_TRUE(has(turn(), 63));
  EXPECT_FALSE(watch.has_record_alone(63));
  heads[63].fetch_add(1);
  EXPECT_TRUE(watch.has_record_alone(63));
  watch.taken(63, WatchedWord(&heads[63]));
  EXPECT_FALSE(watch.has_record_alone(63));
  EXPECT_TRUE(turn().empty());
  heads[63].fetch_add(1);
  bells[63].fetch_add(1);
  EXPECT_FALSE(watch.has_record_alone(63)) << "the bell wants a turn";
  ASSERT_TRUE(has(turn(), 63));
  watch.touch(63);
  heads[63].fetch_add(1);
  EXPECT_FALSE(watch.has_record_alone(63)) << "something is under way";
  watch.rested(63, WatchedWord(), WatchedWord(&heads[63]), kNever);
  heads[63].fetch_add(1);
  EXPECT_FALSE(watch.has_record_alone(63)) << "it gets every turn";
}

/// A peer that finds this side awake moves the head of the FIFO and does not ring.
TEST_F(DirectWatches, a_head_that_moves_counts_as_a_bell) {
  watch.touch(63);
  EXPECT_TRUE(watch.has_news(now));
  EXPECT_TRUE(has(turn(), 63));
  EXPECT_FALSE(watch.has_news(now)) << "it has had its turn";
  heads[63].fetch_add(1);
  EXPECT_TRUE(watch.has_news(now));
  EXPECT_EQ(turn(), std::vector<uint32_t>{63});
  EXPECT_FALSE(watch.has_news(now));
  EXPECT_TRUE(watch.has_news(now + adapter::kWindowSweepEvery)) << "all get a turn once a millisecond";
}

TEST_F(DirectWatches, a_window_that_is_used_gets_the_next_turn_and_counts_its_own_time) {
  watch.touch(17);
  EXPECT_EQ(watch.next([](size_t place) { return Instant(1s + 1ms * static_cast<int64_t>(place)); }),
            Instant(1s + 17ms));
  EXPECT_EQ(turn(Instant(1s + 500us)), std::vector<uint32_t>{17});
  EXPECT_EQ(watch.next([](size_t) { return kNever; }), Instant(1s + 500us));
  now = Instant(1s + 500us);
  EXPECT_TRUE(has(turn(), 17));
}

TEST_F(DirectWatches, all_get_a_turn_once_a_millisecond) {
  now += adapter::kWindowSweepEvery;
  EXPECT_EQ(turn().size(), bells.size());
  EXPECT_TRUE(turn().empty());
}

TEST_F(DirectWatches, after_an_erase_all_get_a_turn_at_their_new_places) {
  const uint64_t before = watch.changes();
  watch.erase(3);
  EXPECT_NE(watch.changes(), before);
  EXPECT_EQ(turn().size(), bells.size() - 1);
}

TEST_F(DirectWatches, a_window_without_a_bell_gets_every_turn) {
  watch.touch(5);
  (void)watch.call(now);
  watch.rested(5, {}, {}, kNever);
  for (uint32_t i = 0; i < 3 * adapter::kTurnsUntilQuiet; ++i) {
    const auto called = watch.call(now);
    ASSERT_EQ(called.size(), 1U);
    watch.rested(5, {}, {}, kNever);
  }
}

TEST_F(DirectWatches, a_window_tells_its_time_with_or_without_a_bell) {
  for (const bool has_bell : {false, true}) {
    now += 2 * adapter::kWindowSweepEvery;
    (void)turn();
    watch.touch(5);
    (void)watch.call(now);
    watch.rested(5, WatchedWord(has_bell ? &bells[5] : nullptr), WatchedWord(&heads[5]), now + 100us);
    EXPECT_EQ(watch.next([](size_t) { return kNever; }), now + 100us);
  }
}

TEST(DirectWatchOfFew, few_windows_get_every_turn) {
  DirectWatch watch;
  std::array<std::atomic<uint64_t>, 4> bells{};
  for (size_t i = 0; i < bells.size(); ++i) watch.add();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(watch.call(Instant(1s)).size(), 4U);
    for (uint32_t place = 0; place < 4; ++place)
      watch.rested(place, WatchedWord(&bells.at(place)), WatchedWord(&bells.at(place)), kNever);
  }
}

}  // namespace
}  // namespace weft::test
