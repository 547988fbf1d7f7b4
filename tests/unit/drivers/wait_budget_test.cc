// How long the unit waits for an endnode: what is charged, and what comes back.
#include "iou_driver/wait_budget.h"

#include <gtest/gtest.h>

#include <utility>

namespace weft::iou {
namespace {

using namespace std::chrono_literals;

constexpr Duration kTurn = 1ms;

class WaitBudgetTest : public ::testing::Test {
 protected:
  /// Turns of kTurn in which something waits, until nothing is left; 1000 at most.
  int turns_left() {
    int turns = 0;
    while (turns < 1000 && wait()) ++turns;
    return turns;
  }
  bool wait() {
    const Instant last = std::exchange(now, now + kTurn);
    return budget.wait(now, last);
  }

  WaitBudget budget{Lid(3)};
  Instant now{1h};
};

TEST_F(WaitBudgetTest, is_used_up_by_the_longest_wait) {
  EXPECT_EQ(turns_left(), kSlowHostMax / kTurn) << "the first turn begins the wait";
  EXPECT_FALSE(wait());
}

TEST_F(WaitBudgetTest, counts_waits_at_the_same_time_once) {
  for (int i = 0; i < kSlowHostMax / kTurn; ++i) {
    EXPECT_TRUE(wait());
    EXPECT_TRUE(budget.wait(now, now - kTurn));
  }
  EXPECT_FALSE(wait());
}

TEST_F(WaitBudgetTest, does_not_count_the_time_between_two_waits) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(wait());
    now += 1s;
  }
}

TEST_F(WaitBudgetTest, comes_back_with_time) {
  turns_left();
  now += 199ms;  // and the first turn: 50 ms in a second
  EXPECT_EQ(turns_left(), 10);
  now += 1h;
  EXPECT_EQ(turns_left(), kSlowHostMax / kTurn);
}

TEST_F(WaitBudgetTest, comes_back_with_the_bytes_that_the_endnode_takes) {
  turns_left();
  for (int i = 0; i < 100; ++i) {
    budget.add_taken(static_cast<uint32_t>(kTurn / kWaitPerByte) + 1);
    EXPECT_TRUE(wait()) << i;
  }
  budget.add_taken(1U << 31);
  EXPECT_EQ(turns_left(), kSlowHostMax / kTurn) << "never more than the whole";
}

TEST_F(WaitBudgetTest, comes_back_with_short_frames_as_with_longer_ones) {
  turns_left();
  for (int turn = 0; turn < 100; ++turn) {
    for (int frame = 0; frame < 62; ++frame) budget.add_taken(60);
    EXPECT_TRUE(wait()) << turn;
  }
}

TEST_F(WaitBudgetTest, is_not_charged_for_a_wait_that_is_not_the_endnodes_fault) {
  for (int i = 0; i < 100; ++i) {
    now += kTurn;
    budget.wait_unblamed(now);
  }
  EXPECT_EQ(turns_left(), kSlowHostMax / kTurn - 1) << "the first turn goes on with the wait";
}

}  // namespace
}  // namespace weft::iou
