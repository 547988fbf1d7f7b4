// What a switch does when peers misbehave, die or freeze: each answer under its own counter, and nobody else
// suffers.
#include <gtest/gtest.h>

#include "tests/support/test_fabric.h"

namespace weft::test {
namespace {

TestFabricConfig fabric_of(uint32_t nodes, uint32_t flit_payload_bytes = 0, uint32_t credits = 8) {
  TestFabricConfig config;
  config.switching = small_switch(flit_payload_bytes, credits);
  config.nodes = nodes;
  return config;
}

TEST(SwitchIngress, each_refusal_has_its_own_counter) {
  struct Case {
    SwitchPortCounter counter;
    size_t offset;
    uint8_t value;
  };
  const Case cases[] = {
      {SwitchPortCounter::kDropVersion, 12, 9},       {SwitchPortCounter::kDropAddress, 0, 9},
      {SwitchPortCounter::kDropAddress, 4, 0xFF},     {SwitchPortCounter::kDropLaneMismatch, 15, 1},
      {SwitchPortCounter::kDropForeignSource, 11, 2}, {SwitchPortCounter::kDropForeignSource, 9, 1},
      {SwitchPortCounter::kDropForeignSubnet, 3, 1},  {SwitchPortCounter::kDropNoRoute, 5, 99}};
  TestFabric fabric(fabric_of(2));
  for (const Case& one : cases) {
    const uint64_t before = fabric.count(1, one.counter);
    std::vector<std::byte> cell = make_cell({});
    cell[one.offset] = static_cast<std::byte>(one.value);
    if (one.offset == 4) cell[5] = std::byte{0xFF};
    const size_t covered = cell.size() - kCrcBytes;
    store_be(cell.data() + covered, crc32c({cell.data(), covered}));
    std::byte* to = fabric.nodes[0]->claim(VirtualLane(0), static_cast<uint32_t>(cell.size()));
    ASSERT_NE(to, nullptr);
    std::memcpy(to, cell.data(), cell.size());
    fabric.nodes[0]->commit(VirtualLane(0), static_cast<uint32_t>(cell.size()), cell_crc(cell));
    fabric.run(3);
    EXPECT_EQ(fabric.count(1, one.counter), before + 1) << one.offset;
    fabric.expect_conserved();
  }
  EXPECT_TRUE(fabric.received[1].empty());
  fabric.cables[1]->unplug();
  fabric.run(5);
  ASSERT_TRUE(fabric.send(0, TestCell{}));
  fabric.run(30);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropPortDown), 1U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U) << "credit of dropped cells comes back";
}

TEST(SwitchIngress, lane_15_is_bounded_and_rated_and_qp1_is_rated) {
  TestFabricConfig config = fabric_of(2);
  config.switching.management_per_second = config.switching.gsi_per_second = 10;
  TestFabric fabric(config);
  for (int i = 0; i < 200; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.vl = kVlManagement, .opcode = Opcode::kUdSend}));
    fabric.run(2);
  }
  EXPECT_EQ(fabric.received[1].size(), 64U) << "the burst";
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropManagementRate), 136U);
  fabric.received[1].clear();
  for (int i = 0; i < 600; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.dest_qpn = kQpnGsi, .opcode = Opcode::kUdSend}));
    fabric.run(2);
  }
  EXPECT_EQ(fabric.received[1].size(), 256U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropGsiRate), 344U);
  fabric.step(1s);
  ASSERT_TRUE(fabric.send(0, TestCell{.dest_qpn = kQpnGsi, .opcode = Opcode::kUdSend}));
  fabric.run(5);
  EXPECT_EQ(fabric.received[1].size(), 257U);
}

TEST(SwitchIngress, lane_15_full_is_dropped_not_blocked) {
  TestFabricConfig config = fabric_of(2);
  config.switching.management_per_second = 100'000;
  TestFabric fabric(config);
  fabric.freeze(1, true);
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.vl = kVlManagement, .opcode = Opcode::kUdSend}));
    fabric.step(20us);
  }
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropManagementFull), 100U);
  fabric.expect_conserved();
}

TEST(SwitchLifetime, a_frozen_endnode_loses_its_cells_after_two_seconds_and_harms_nobody) {
  TestFabric fabric(fabric_of(3));
  fabric.freeze(1, true);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.dlid = Lid(2)}));
    fabric.step();
  }
  EXPECT_EQ(fabric.drops(), 0U) << "back-pressure first";
  EXPECT_FALSE(fabric.send(0, TestCell{.dlid = Lid(2)}));
  EXPECT_EQ(fabric.link(1, kSwitch).state(), LinkState::kUp) << "frozen is not dead (decisions 2.9)";
  fabric.run(30, 100ms);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 8U);
  EXPECT_EQ(fabric.link(1, kSwitch).counters().get(LinkCounter::kPeerStalled), 1U);
  // From now on its cells go at once, and the lane is free for others.
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(3)}));
  fabric.run(5);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 9U);
  EXPECT_EQ(fabric.received[2].size(), 1U);
  // It thaws: what was on its link arrives, and new cells pass.
  fabric.freeze(1, false);
  fabric.run(300, 1ms);
  EXPECT_EQ(fabric.received[1].size(), 8U);
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
  fabric.run(5);
  EXPECT_EQ(fabric.received[1].size(), 9U);
  EXPECT_EQ(fabric.link(1, kNode).incarnation(), 1U);
  fabric.expect_conserved();
}

/// Sends the head flit of a four-flit cell from node 0 to node 1 and lets it pass.
void begin_cell(TestFabric& fabric) {
  const std::vector<std::byte> cell = make_cell({.payload_bytes = 256});
  LinkEngine& sender = fabric.link(0, kNode);
  std::byte* to = sender.claim(VirtualLane(0));
  ASSERT_NE(to, nullptr);
  std::memcpy(to, cell.data(), 96);
  sender.commit({VirtualLane(0), kFlitHead, 96, 0});
  fabric.run(10);
}

TEST(SwitchPoison, a_cell_whose_sender_dies_is_ended_and_the_lane_goes_on) {
  TestFabricConfig config = fabric_of(3, 96);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  begin_cell(fabric);
  // Another sender waits behind the open cell.
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(2), .payload_bytes = 256}));
  fabric.run(20);
  EXPECT_TRUE(fabric.received[1].empty());
  fabric.cables[0]->unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.nodes[1]->counters().get(CellPortCounter::kPoisoned), 1U);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLinkReset), 1U);
  EXPECT_EQ(fabric.count(2, SwitchPortCounter::kPoisonOut), 1U);
  fabric.expect_conserved();
  // The sender returns as a new incarnation with all its credit.
  EXPECT_EQ(fabric.cables[0]->plug(fabric.clock.now()), LinkRefusal::kNone);
  fabric.run(2000);
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(20);
  EXPECT_EQ(fabric.received[1].size(), 2U);
}

TEST(SwitchPoison, a_stored_cell_whose_sender_dies_never_leaves) {
  TestFabric fabric(fabric_of(2, 96));
  begin_cell(fabric);
  fabric.cables[0]->unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.traces[1]->count(kSwitch, FlitKind::kData), 0U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLinkReset), 1U);
  fabric.expect_conserved();
}

TEST(SwitchReset, an_output_that_dies_returns_the_credit_of_what_waited_for_it) {
  TestFabric fabric(fabric_of(3));
  fabric.freeze(1, true);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.dlid = Lid(2)}));
    fabric.step();
  }
  EXPECT_GT(fabric.fabric->cells_held(), 0U);
  fabric.cables[1]->unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U);
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropPortDown), 0U);
  EXPECT_GT(fabric.link(1, kSwitch).counters().get(LinkCounter::kFlitsLostAtReset), 0U) << "decisions 2.11";
  fabric.expect_conserved();
}

TEST(SwitchReset, traffic_survives_links_that_come_and_go) {
  TestFabricConfig config = fabric_of(3, 96, 16);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  for (int turn = 0; turn < 20'000; ++turn) {
    for (uint32_t from = 0; from < 3; ++from) {
      const Lid to(static_cast<uint16_t>(1 + fabric.random.below(3)));
      static_cast<void>(fabric.send(from, TestCell{.dlid = to, .payload_bytes = 256}));
    }
    const auto victim = static_cast<size_t>(fabric.random.below(3));
    if (turn % 97 == 0) fabric.cables[victim]->unplug();
    if (turn % 97 == 50) {
      for (auto& cable : fabric.cables) {
        if (cable->plugged()) continue;
        EXPECT_EQ(cable->plug(fabric.clock.now()), LinkRefusal::kNone);
      }
    }
    fabric.step(20us);
    fabric.expect_conserved();
  }
  for (auto& cable : fabric.cables) {
    if (cable->plugged()) continue;
    EXPECT_EQ(cable->plug(fabric.clock.now()), LinkRefusal::kNone);
  }
  fabric.run(3000, 10us);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  for (auto& cable : fabric.cables) EXPECT_EQ(cable->end(kNode).credits(VirtualLane(0)), 16U);
  for (const auto& node : fabric.received) {
    for (const std::vector<std::byte>& cell : node) {
      CellView view;
      EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
    }
  }
}

TEST(VlArbiterTest, weights_share_and_high_goes_first) {
  VlArbiter arbiter;
  VlArbitration tables;
  tables.low = {{VirtualLane(0), 10}, {VirtualLane(1), 30}};
  tables.high = {{VirtualLane(2), 10}};
  ASSERT_TRUE(arbiter.configure(tables, 3).ok());
  std::array<uint32_t, kVlCount> bytes{};
  const auto serve = [&](uint32_t ready, int turns) {
    bytes = {};
    for (int i = 0; i < turns; ++i) {
      const VlArbiter::Choice choice = arbiter.choose(ready);
      bytes[choice.vl.value()] += 64;
      arbiter.charge(64);
    }
  };
  serve(0b011, 4000);
  EXPECT_EQ(bytes[0], 64000U);
  EXPECT_EQ(bytes[1], 192000U);
  serve(0b111, 100);
  EXPECT_EQ(bytes[2], 6400U);
  serve(0b111 | 1U << 15, 10);
  EXPECT_EQ(bytes[15], 640U);
  // With a limit of one unit a low cell goes after each 4096 bytes of high ones.
  tables.high_limit = 1;
  ASSERT_TRUE(arbiter.configure(tables, 3).ok());
  serve(0b111, 6500);
  EXPECT_EQ(bytes[0] + bytes[1], 6400U);
  EXPECT_FALSE(arbiter.configure(tables, 4).ok()) << "lane 3 would starve";
  tables.low.push_back({kVlManagement, 1});
  EXPECT_FALSE(arbiter.configure(tables, 3).ok());
}

}  // namespace
}  // namespace weft::test
