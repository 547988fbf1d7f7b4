// Who gets a turn in the simulator: a node sleeps only while nothing concerns it, and a frozen one gets none.
#include "sim/turns.h"

#include <gtest/gtest.h>

#include "sim/world_plan.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

struct SeatState {
  int work = 0;  // of the next polls
  int polls = 0;
  bool alive = true;
  bool disturbed = false;
  Instant due = kNever;
};

class TestSeat final : public Seat {
 public:
  explicit TestSeat(SeatState& state) : state_(state) {}
  [[nodiscard]] bool alive() const noexcept override { return state_.alive; }
  int poll(Instant /*now*/) noexcept override {
    ++state_.polls;
    return state_.work;
  }
  [[nodiscard]] Instant deadline() const noexcept override { return state_.due; }
  [[nodiscard]] bool disturbed() const noexcept override { return state_.disturbed; }

 private:
  SeatState& state_;
};

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() { turns_.add(std::make_unique<TestSeat>(seat_)); }
  /// True when the node had its turn.
  bool polled_at(Duration at) {
    const int before = seat_.polls;
    turns_.take(Instant(at));
    EXPECT_EQ(turns_.polled() != 0, seat_.polls != before);
    return seat_.polls != before;
  }

  SeatState seat_;
  SeededRandom random_{1};
  Turns turns_{random_, 0};
};

TEST_F(TurnsTest, a_node_with_nothing_to_do_sleeps_until_its_deadline) {
  seat_.due = Instant(10us);
  EXPECT_TRUE(polled_at(0us));
  EXPECT_FALSE(polled_at(5us));
  EXPECT_EQ(turns_.next_deadline(), Instant(10us));
  EXPECT_TRUE(polled_at(10us));
}

TEST_F(TurnsTest, work_keeps_it_awake) {
  seat_.work = 1;
  EXPECT_TRUE(polled_at(0us));
  seat_.work = 0;
  EXPECT_TRUE(polled_at(1us));
  EXPECT_FALSE(polled_at(2us));
}

TEST_F(TurnsTest, what_comes_from_outside_wakes_it) {
  EXPECT_TRUE(polled_at(0us));
  seat_.disturbed = true;
  EXPECT_TRUE(polled_at(1us));
  seat_.disturbed = false;
  EXPECT_FALSE(polled_at(2us));
  turns_.wake(0);
  EXPECT_TRUE(polled_at(3us));
}

TEST_F(TurnsTest, a_frozen_node_gets_no_turn_and_its_deadlines_pass) {
  seat_.due = Instant(10us);
  EXPECT_TRUE(polled_at(0us));
  turns_.freeze(0, true);
  EXPECT_FALSE(polled_at(20us));
  EXPECT_EQ(turns_.next_deadline(), kNever);
  turns_.freeze(0, false);
  EXPECT_TRUE(polled_at(30us));
}

TEST_F(TurnsTest, a_dead_node_gets_no_turn) {
  seat_.alive = false;
  EXPECT_FALSE(polled_at(0us));
  EXPECT_EQ(turns_.next_deadline(), kNever);
}

TEST_F(TurnsTest, a_deadline_that_is_never_met_is_counted) {
  seat_.due = Instant(1us);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(polled_at(2us));
  EXPECT_EQ(turns_.late_in_a_row(), 3U);
  seat_.work = 1;
  EXPECT_TRUE(polled_at(3us));
  EXPECT_EQ(turns_.late_in_a_row(), 0U);
}

TEST(WorldPlanTest, hindered_counts_what_keeps_cells_from_passing) {
  WorldPlan plan;
  plan.fabric.endnodes = 3;
  plan.fabric.far_nodes = 1U << 3;
  plan.freezes = {{1, Instant(10ms), Instant(20ms)}, {2, Instant(30ms), Instant(40ms)}};
  EXPECT_EQ(plan.hindered(1, 3, Instant{}, Instant(1s)), 20ms);
  EXPECT_EQ(plan.hindered(1, 3, Instant(15ms), Instant(1s)), 15ms);
  EXPECT_EQ(plan.hindered(1, 3, Instant(15ms), Instant(35ms)), 10ms);
  // The death of a switch takes the link of its own endnodes down; those behind another one cannot see it.
  plan.freezes.clear();
  plan.crashes = {{plan.fabric.switch_node(1), Instant(10ms), Instant(20ms)}};
  EXPECT_EQ(plan.hindered(1, 2, Instant{}, Instant(1s)), 0ms);
  EXPECT_EQ(plan.hindered(1, 3, Instant{}, Instant(1s)), 10ms);
}

}  // namespace
}  // namespace weft::sim
