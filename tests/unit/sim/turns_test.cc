// Who gets a turn in the simulator: a node sleeps only while nothing concerns it, and a frozen one gets none.
#include "sim/turns.h"

#include <gtest/gtest.h>

#include "sim/plan/world_plan.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

struct NodeState {
  int work = 0;  // of the next polls
  int polls = 0;
  bool alive = true;
  bool disturbed = false;
  Instant due = kNever;
};

class TestNode final : public SimNode {
 public:
  explicit TestNode(NodeState& state) : state_(state) {}
  [[nodiscard]] bool alive() const noexcept override { return state_.alive; }
  int poll(Instant /*now*/) noexcept override {
    ++state_.polls;
    return state_.work;
  }
  [[nodiscard]] Instant deadline() const noexcept override { return state_.due; }
  [[nodiscard]] bool disturbed() const noexcept override { return state_.disturbed; }

 private:
  NodeState& state_;
};

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() { turns_.add(std::make_unique<TestNode>(node_)); }
  /// True when the node had its turn.
  bool polled_at(Duration at) {
    const int before = node_.polls;
    turns_.take(Instant(at));
    EXPECT_EQ(turns_.polled() != 0, node_.polls != before);
    return node_.polls != before;
  }

  NodeState node_;
  SeededRandom random_{1};
  Turns turns_{random_, 0};
};

TEST_F(TurnsTest, a_node_with_nothing_to_do_sleeps_until_its_deadline) {
  node_.due = Instant(10us);
  EXPECT_TRUE(polled_at(0us));
  EXPECT_FALSE(polled_at(5us));
  EXPECT_EQ(turns_.next_deadline(), Instant(10us));
  EXPECT_TRUE(polled_at(10us));
}

TEST_F(TurnsTest, work_keeps_it_awake) {
  node_.work = 1;
  EXPECT_TRUE(polled_at(0us));
  node_.work = 0;
  EXPECT_TRUE(polled_at(1us));
  EXPECT_FALSE(polled_at(2us));
}

TEST_F(TurnsTest, what_comes_from_outside_wakes_it) {
  EXPECT_TRUE(polled_at(0us));
  node_.disturbed = true;
  EXPECT_TRUE(polled_at(1us));
  node_.disturbed = false;
  EXPECT_FALSE(polled_at(2us));
  turns_.wake(0);
  EXPECT_TRUE(polled_at(3us));
}

TEST_F(TurnsTest, a_frozen_node_gets_no_turn_and_its_deadlines_pass) {
  node_.due = Instant(10us);
  EXPECT_TRUE(polled_at(0us));
  turns_.freeze(0, true);
  EXPECT_FALSE(polled_at(20us));
  EXPECT_EQ(turns_.next_deadline(), kNever);
  turns_.freeze(0, false);
  EXPECT_TRUE(polled_at(30us));
}

TEST_F(TurnsTest, a_dead_node_gets_no_turn) {
  node_.alive = false;
  EXPECT_FALSE(polled_at(0us));
  EXPECT_EQ(turns_.next_deadline(), kNever);
}

TEST_F(TurnsTest, a_deadline_that_is_never_met_is_counted) {
  node_.due = Instant(1us);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(polled_at(2us));
  EXPECT_EQ(turns_.late_in_a_row(), 3U);
  node_.work = 1;
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
