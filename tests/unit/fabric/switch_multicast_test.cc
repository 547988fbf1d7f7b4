// Cells to multicast LIDs: one copy for each other endnode, none in a circle, and nobody waits for anybody.
#include <gtest/gtest.h>

#include <chrono>

#include "fabric/switch/live_faults.h"
#include "messages/multicast.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr Lid kGroup{0xC005};

TestFabricConfig group_fabric(uint32_t nodes, uint32_t flit_payload_bytes = 0) {
  TestFabricConfig config;
  config.switching = small_switch(flit_payload_bytes, 8);
  config.nodes = nodes;
  return config;
}

TEST(SwitchMulticast, every_other_endnode_gets_one_copy) {
  TestFabric fabric(group_fabric(4));
  for (uint32_t number = 0; number < 20; ++number) {
    ASSERT_TRUE(fabric.send(1, TestCell{.dlid = kGroup, .number = number}));
    fabric.run(4);
  }
  EXPECT_TRUE(fabric.received[1].empty());
  for (const size_t node : {0U, 2U, 3U}) {
    ASSERT_EQ(fabric.received[node].size(), 20U);
    for (uint32_t number = 0; number < 20; ++number)
      EXPECT_EQ(cell_number(fabric.received[node][number]), number);
  }
  EXPECT_EQ(fabric.count(2, SwitchPortCounter::kCellsCopied), 40U);
  EXPECT_EQ(fabric.drops(), 0U);
  fabric.expect_conserved();
}

TEST(SwitchMulticast, an_endnode_that_has_such_a_lid_is_an_endnode) {
  TestFabric fabric(group_fabric(3));
  fabric.fabric->forwarding().set(kGroup, 3);
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGroup}));
  fabric.run(4);
  EXPECT_TRUE(fabric.received[1].empty());
  EXPECT_EQ(fabric.received[2].size(), 1U);
}

/// As a subnet manager may say it: the switch asks its table, not the number.
TEST(SwitchMulticast, the_table_says_which_lids_are_those_of_groups) {
  TestFabric fabric(group_fabric(3));
  constexpr Lid kGiven{77};
  fabric.fabric->forwarding().set(kGiven, kPortGroup);
  fabric.fabric->forwarding().set(kGroup, kPortNone);
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGiven}));
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGroup}));
  fabric.run(4);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.received[2].size(), 1U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropNoRoute), 1U);
  fabric.fabric->forwarding().set(kGroup, 3);
  fabric.fabric->forwarding().forget(kGroup);
  fabric.fabric->forwarding().forget(kGiven);
  EXPECT_EQ(fabric.fabric->forwarding().find(1, kGroup), kPortGroup);
  EXPECT_EQ(fabric.fabric->forwarding().find(1, kGiven), kPortNone);
  fabric.expect_conserved();
}

TEST(SwitchMulticast, a_forged_source_or_a_cell_of_several_flits_goes_nowhere) {
  TestFabric fabric(group_fabric(3));
  ASSERT_TRUE(fabric.send(0, make_cell({.dlid = kGroup, .slid = Lid(2)})));
  fabric.run(4);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropForeignSource), 1U);
  TestFabric small(group_fabric(3, 96));
  ASSERT_TRUE(small.send(0, TestCell{.dlid = kGroup, .payload_bytes = 200}));
  small.run(20);
  EXPECT_EQ(small.count(1, SwitchPortCounter::kDropMulticast), 1U);
  for (const TestFabric* one : {&fabric, &small}) {
    for (const auto& node : one->received) EXPECT_TRUE(node.empty());
    one->expect_conserved();
  }
}

/// A copy is neither held back nor doubled by a fault; it can be lost.
TEST(SwitchMulticast, a_fault_loses_copies_for_its_port_and_does_nothing_else_to_them) {
  for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kCorrupt, FaultKind::kDuplicate,
                               FaultKind::kReorder, FaultKind::kDelay}) {
    TestFabric fabric(group_fabric(3));
    FaultRule rule{.kind = kind, .port = 2};
    if (kind == FaultKind::kDelay) rule.delay_min = rule.delay_max = std::chrono::seconds(1);
    ASSERT_TRUE(fabric.fabric->faults().add(rule, fabric.clock.now()));
    for (uint32_t number = 0; number < 10; ++number) {
      ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGroup, .number = number}));
      fabric.run(4);
    }
    const bool lost = kind == FaultKind::kDrop || kind == FaultKind::kCorrupt;
    EXPECT_EQ(fabric.received[1].size(), lost ? 0U : 10U) << to_string(kind);
    EXPECT_EQ(fabric.received[2].size(), 10U) << to_string(kind);
    EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropFault), lost ? 10U : 0U) << to_string(kind);
    fabric.expect_conserved();
  }
}

/// Neither counts as a copy: one whose link is down, one that has not the lane.
TEST(SwitchMulticast, an_endnode_that_cannot_be_reached_is_no_member) {
  TestFabricConfig config = group_fabric(4);
  config.node_lanes = 1;  // of node 1
  TestFabric fabric(config);
  fabric.cable(3).unplug();
  fabric.run(4);
  for (const uint8_t lane : {uint8_t{0}, uint8_t{2}}) {
    const uint64_t before = fabric.count(1, SwitchPortCounter::kCellsCopied);
    ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGroup, .vl = VirtualLane(lane)}));
    fabric.run(4);
    EXPECT_EQ(fabric.count(1, SwitchPortCounter::kCellsCopied) - before, lane == 0 ? 1U : 0U);
  }
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.received[2].size(), 2U);
  EXPECT_EQ(fabric.drops(), 0U) << "nothing was lost on the way to either";
  fabric.expect_conserved();
}

TEST(SwitchMulticast, a_frozen_member_costs_the_others_nothing) {
  TestFabric fabric(group_fabric(3));
  fabric.freeze(1, true);
  for (uint32_t number = 0; number < 200; ++number) {
    ASSERT_TRUE(fabric.send(0, TestCell{.dlid = kGroup, .number = number})) << number;
    fabric.run(6);
    fabric.expect_conserved();
  }
  EXPECT_EQ(fabric.received[2].size(), 200U);
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropMulticast), 100U);
  const LinkEngine& sender = fabric.link(0, kNode);
  EXPECT_EQ(sender.credits(VirtualLane(0)), 4U) << "each copy that waits has the credit of its cell";
  fabric.freeze(1, false);
  fabric.run(300);
  EXPECT_EQ(sender.credits(VirtualLane(0)), 8U);
  EXPECT_EQ(sender.counters().get(LinkCounter::kCreditBeyondSent), 0U) << "and gives it back once";
}

/// Two switches with two links between them, an endnode at each; the second link is no route to anybody.
TEST(SwitchMulticast, no_copy_goes_in_a_circle_or_comes_twice) {
  TestFabric circle(two_switches(0, 2));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(circle.send(0, TestCell{.dlid = kGroup, .number = static_cast<uint32_t>(i)}));
    circle.run(10);
  }
  EXPECT_EQ(circle.received[0].size(), 0U);
  EXPECT_EQ(circle.received[1].size(), 10U);
  const uint64_t before = circle.count(3, SwitchPortCounter::kCellsOut);
  circle.run(100);
  EXPECT_EQ(circle.count(3, SwitchPortCounter::kCellsOut), before);
}

}  // namespace
}  // namespace weft::test
