// What an endnode that does not read costs those who send to others: time is virtual, sizes are those a
// topology gets that names none.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr Duration kStep = 100us;
/// What a host that stops may cost its neighbours.
constexpr Duration kPauseMax = 50ms;

TestFabricConfig shipped_defaults(uint32_t nodes) {
  TestFabricConfig config;
  config.switching.ports = nodes;
  config.switching.link.guid = Guid(0x5);
  config.nodes = nodes;
  return config;
}

/// Node 0 floods the victims and sends the last node a cell every millisecond.
class Flood {
 public:
  Flood(TestFabric& fabric, uint32_t victims)
      : fabric_(fabric), victims_(victims), last_(fabric.clock.now()) {}

  void run(Duration time) {
    for (Duration gone{}; gone < time; gone += kStep) {
      if (fabric_.clock.now() >= due_ &&
          fabric_.send(0, TestCell{.dlid = Lid(static_cast<uint16_t>(victims_ + 2))})) {
        due_ = fabric_.clock.now() + 1ms;
      }
      for (uint32_t i = 0; i < 8; ++i) {
        const auto to = static_cast<uint16_t>(2 + i % victims_);
        static_cast<void>(fabric_.send(0, TestCell{.dlid = Lid(to)}));
      }
      fabric_.step(kStep);
      look();
    }
  }
  void freeze(bool on) {
    for (uint32_t i = 1; i <= victims_; ++i) fabric_.freeze(i, on);
  }

  Duration longest_pause{};  // of the healthy neighbour
  uint64_t to_victims = 0;

 private:
  void look() {
    const Instant now = fabric_.clock.now();
    auto& healthy = fabric_.received[victims_ + 1];
    if (!healthy.empty()) last_ = now;
    longest_pause = std::max(longest_pause, now - last_);
    healthy.clear();
    for (uint32_t i = 1; i <= victims_; ++i) {
      to_victims += fabric_.received[i].size();
      fabric_.received[i].clear();
    }
    for (auto& trace : fabric_.traces) trace->clear();
  }

  TestFabric& fabric_;
  uint32_t victims_;
  Instant last_;
  Instant due_{};
};

/// How many endnodes freeze, and the credits their switch and they agree on.
class FrozenOutput : public ::testing::TestWithParam<std::pair<uint32_t, uint32_t>> {};

TEST_P(FrozenOutput, costs_a_neighbour_no_more_than_50_ms_each_time) {
  const auto [victims, node_credits] = GetParam();
  TestFabricConfig config = shipped_defaults(victims + 2);
  config.node_credits = node_credits;
  TestFabric fabric(config);
  Flood flood(fabric, victims);
  flood.run(100ms);
  EXPECT_EQ(fabric.drops(), 0U);
  for (int round = 0; round < 3; ++round) {
    flood.freeze(true);
    flood.run(600ms);
    EXPECT_LE(flood.longest_pause, kPauseMax) << "freeze " << round;
    flood.freeze(false);
    const uint64_t before = flood.to_victims;
    flood.run(600ms);
    EXPECT_GT(flood.to_victims, before + 100) << "it goes on where it was, in the same incarnation";
    EXPECT_LE(flood.longest_pause, kPauseMax) << "thaw " << round;
  }
  for (uint32_t i = 1; i <= victims; ++i) EXPECT_EQ(fabric.link(i, kNode).incarnation(), 1U);
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropStandstill), 0U);
  EXPECT_EQ(fabric.drops(), fabric.count(1, SwitchPortCounter::kDropStandstill));
  fabric.expect_conserved();
}

/// 4 KiB cells make 256 slots, 8 of them not for data: fewer than the credits of a lane, so credit alone
/// never tells.
INSTANTIATE_TEST_SUITE_P(Defaults, FrozenOutput,
                         ::testing::Values(std::pair{1U, 0U}, std::pair{2U, 0U}, std::pair{3U, 0U},
                                           std::pair{1U, 128U}, std::pair{1U, 32U}));

TEST(FrozenOutputForLong, loses_everything_after_its_lifetime_until_it_reads_again) {
  TestFabric fabric(shipped_defaults(3));
  Flood flood(fabric, 1);
  flood.freeze(true);
  flood.run(2100ms);
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropLifetime), 0U);
  const uint64_t before = fabric.count(1, SwitchPortCounter::kDropStandstill);
  flood.run(4s);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropStandstill), before)
      << "nothing is kept that could crowd";
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  EXPECT_LE(flood.longest_pause, kPauseMax);
  flood.freeze(false);
  flood.run(100ms);
  EXPECT_GT(flood.to_victims, 100U);
}

TEST(SlowOutput, that_still_moves_loses_nothing) {
  TestFabric fabric(shipped_defaults(3));
  fabric.freeze(1, true);
  uint64_t sent = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (int i = 0; i < 400; ++i) {
      if (fabric.send(0, TestCell{.dlid = Lid(2)})) ++sent;
      fabric.step(50us);
    }
    fabric.freeze(1, false);  // every 20 ms it reads
    fabric.step(1us);
    fabric.freeze(1, true);
  }
  EXPECT_GT(sent, 5'000U);
  EXPECT_EQ(fabric.drops(), 0U) << "back-pressure, not loss";
  fabric.expect_conserved();
}

/// Lane 0 goes first and always has a cell, and most of the time the link has no free slot. Lane 1 has
/// credit: it waits for its turn.
TEST(WaitingLane, behind_a_lane_that_moves_does_not_stand_still) {
  TestFabricConfig config;
  config.switching = small_switch(0, 64);
  config.switching.arbitration.high = {{VirtualLane(0), 255}};
  for (const uint8_t low : {uint8_t{1}, uint8_t{2}, uint8_t{3}})
    config.switching.arbitration.low.push_back({VirtualLane(low), 64});
  config.nodes = 3;
  config.ring_slots = 32;
  TestFabric fabric(config);
  const auto flood = [&](int steps) {
    for (; steps > 0; --steps) {
      while (fabric.send(2, TestCell{.dlid = Lid(2)})) continue;
      fabric.step(100us);
    }
  };
  const auto on_lane_1 = [&] {
    const auto& got = fabric.received[1];
    return static_cast<uint32_t>(std::count_if(got.begin(), got.end(), [](const auto& cell) {
      return CellHead(cell.data()).vl() == VirtualLane(1);
    }));
  };
  fabric.freeze(1, true);
  flood(10);
  TestCell waiting{.dlid = Lid(2)};
  waiting.vl = VirtualLane(1);
  uint32_t sent = 0;
  for (int i = 0; i < 20; ++i, fabric.step(1us))
    while (sent < 40 && fabric.send(0, waiting)) ++sent;
  ASSERT_EQ(sent, 40U) << "more than half of the lane's buffers";
  for (int ms = 0; ms < 100; ++ms) {
    fabric.freeze(1, false);
    fabric.step(1us);
    fabric.freeze(1, true);
    flood(10);
  }
  ASSERT_EQ(on_lane_1(), 0U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropStandstill), 0U);
  fabric.freeze(1, false);
  fabric.run(2000, 10us);
  EXPECT_EQ(on_lane_1(), sent);
  EXPECT_EQ(fabric.drops(), 0U);
}

/// With so few credits a lane waits for each of them, and on a link that loses every fourth flit of those
/// that return them it often has to ask several times.
TEST(FewCredits, over_a_link_that_loses_flits_are_no_standstill) {
  for (const uint32_t credits : {1U, 2U}) {
    TestFabricConfig config;
    config.switching = small_switch(0, 8);
    config.node_credits = credits;
    config.nodes = 2;
    TestFabric fabric(config);
    fabric.set_faults(1, kNode, {.drop_ppm = 250'000});
    uint64_t sent = 0;
    for (int i = 0; i < 40'000; ++i) {
      if (fabric.send(0, TestCell{.dlid = Lid(2)})) ++sent;
      fabric.step(100us);
      fabric.received[1].clear();
      for (auto& trace : fabric.traces) trace->clear();
    }
    EXPECT_GT(fabric.link(1, kSwitch).counters().get(LinkCounter::kProbesSent), 500U);
    EXPECT_GT(sent, 1000U);
    EXPECT_EQ(fabric.drops(), 0U) << credits;
    EXPECT_EQ(fabric.link(1, kSwitch).incarnation(), 1U);
  }
}

/// When cells are dropped because they crowd others': at once for an endnode, later for a switch, which drops
/// what crowds it itself.
TEST(FrozenOutput, of_a_neighbouring_switch_is_given_twice_the_time) {
  for (const bool neighbour : {false, true}) {
    TestFabricConfig config;
    config.switching = small_switch(0, 32);
    config.nodes = 3;
    config.first_is_a_switch = neighbour;
    TestFabric fabric(config);
    fabric.freeze(0, true);
    const Lid to = neighbour ? Lid(9) : Lid(1);
    const Instant start = fabric.clock.now();
    while (fabric.total(SwitchPortCounter::kDropStandstill) == 0 && fabric.clock.now() - start < 200ms) {
      static_cast<void>(fabric.send(1, TestCell{.dlid = to}));
      fabric.step(100us);
    }
    const Duration took = fabric.clock.now() - start;
    EXPECT_GE(took, (neighbour ? 2 : 1) * kOutputStandstill);
    EXPECT_LT(took, (neighbour ? 2 : 1) * kOutputStandstill + 15ms);
  }
}

TEST(OpenCell, that_is_given_up_takes_nothing_with_it_that_waits_behind) {
  TestFabricConfig config;
  config.switching = small_switch(kFlitPayloadBytesConformance, 16);
  config.switching.link.cut_through = true;
  config.nodes = 3;
  TestFabric fabric(config);
  send_flit(fabric.link(0, kNode), make_cell({.dlid = Lid(2), .payload_bytes = 256}), 0);
  fabric.run(50);
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(2), .payload_bytes = 256}));
  fabric.run(22, 100ms);
  fabric.run(3, 100ms);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 1U) << "the cell that was begun";
  EXPECT_EQ(fabric.received[1].size(), 1U) << "the other one had waited for it, not for the output";
  EXPECT_EQ(fabric.drops(), 1U);
  fabric.expect_conserved();
}

/// Strict lanes (C-32) with cut-through: the sender of an unfinished cell holds the lane of the whole switch.
TEST(OpenCell, whose_tail_never_comes_gives_up_its_lane_after_a_lifetime) {
  TestFabricConfig config;
  config.switching = small_switch(kFlitPayloadBytesConformance, 16);
  config.switching.link.cut_through = true;
  config.switching.one_cell_per_lane = true;
  config.nodes = 4;
  TestFabric fabric(config);
  const std::vector<std::byte> cell = make_cell({.dlid = Lid(2), .payload_bytes = 256});
  send_flit(fabric.link(0, kNode), cell, 0);
  fabric.run(50);
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(4), .payload_bytes = 256}));
  fabric.run(19, 100ms);
  EXPECT_TRUE(fabric.received[3].empty()) << "the lane is one for the whole switch";
  EXPECT_EQ(fabric.drops(), 0U) << "a sender that is merely slow";
  fabric.run(3, 100ms);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 1U) << "the cell that was begun";
  EXPECT_EQ(fabric.nodes[1]->counters().get(CellPortCounter::kPoisoned), 1U);
  EXPECT_EQ(fabric.received[3].size(), 1U) << "and the bystander's goes on, unharmed";
  EXPECT_EQ(fabric.drops(), 1U);
  // What comes of the cell afterwards is swallowed; the next one passes.
  for (size_t flit = 1; flit < 4; ++flit) send_flit(fabric.link(0, kNode), cell, flit);
  fabric.run(50);
  EXPECT_TRUE(fabric.received[1].empty());
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2), .payload_bytes = 256}));
  fabric.run(50);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 16U);
  fabric.expect_conserved();
}

}  // namespace
}  // namespace weft::test
