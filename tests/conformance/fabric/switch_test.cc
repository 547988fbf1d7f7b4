// SAN-SW, SAN-NODE, PUSH-NODE and SAN-LAYER, as far as links and switches are concerned.
#include <gtest/gtest.h>

#include "fabric/switch/admission.h"
#include "tests/support/requirement.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

class SanSw : public OverLinks {
 protected:
  bool head_leaves_alone(bool cut_through);
  /// Four nodes on a switch with one table for all inputs, or one for each.
  [[nodiscard]] TestFabricConfig tables(bool per_input) const {
    TestFabricConfig config = fabric_of(4);
    config.switching.table_per_input = per_input;
    return config;
  }
  /// A further LID that leads to port 3.
  static Lid aliased(TestFabric& fabric) {
    fabric.fabric->forwarding().set(Lid(50), 3);
    return Lid(50);
  }
};
class SanNode : public OverLinks {
 protected:
  size_t throughput(bool other_way_too);
};
class PushNode : public OverLinks {};
INSTANTIATE_TEST_SUITE_P(Links, SanSw, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SanNode, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, PushNode, kEveryLink, link_name);

TEST_P(SanSw, SAN_SW_01_forwards_by_dlid_and_changes_nothing) {
  covers("SAN-SW-01");
  TestFabric fabric(fabric_of(4));
  for (uint16_t to = 2; to <= 4; ++to) {
    const std::vector<std::byte> cell =
        make_cell({.dlid = Lid(to), .slid = Lid(1), .number = to, .payload_bytes = 200});
    ASSERT_TRUE(fabric.send(0, cell));
    fabric.run(5);
    for (uint16_t node = 2; node <= 4; ++node) {
      ASSERT_EQ(fabric.received[node - 1U].size(), node <= to ? 1U : 0U);
    }
    EXPECT_EQ(fabric.received[to - 1U].front(), cell);
  }
}

/// Sends one head flit and waits. @return true if it leaves the switch before its tail has come
bool SanSw::head_leaves_alone(bool cut_through) {
  TestFabricConfig config = fabric_of(2, 96);
  config.switching.link.cut_through = cut_through;
  TestFabric fabric(config);
  send_flit(fabric.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
  fabric.run(20);
  return fabric.traces[1]->count(kSwitch, FlitKind::kData) == 1;
}

TEST_P(SanSw, SAN_SW_03_cut_through_is_a_choice) {
  covers("SAN-SW-03");
  EXPECT_TRUE(head_leaves_alone(true));
  EXPECT_FALSE(head_leaves_alone(false));
}

TEST_P(SanSw, SAN_SW_04_each_port_has_an_engine_of_its_own_without_name) {
  covers("SAN-SW-04");
  TestFabric fabric(fabric_of(3));
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(2)}));
  fabric.run(50);
  EXPECT_EQ(fabric.link(0, kSwitch).counters().get(LinkCounter::kFlitsReceived), 1U);
  EXPECT_EQ(fabric.link(2, kSwitch).counters().get(LinkCounter::kFlitsReceived), 1U);
  EXPECT_EQ(fabric.link(1, kSwitch).counters().get(LinkCounter::kFlitsSent), 2U);
  EXPECT_EQ(fabric.link(1, kSwitch).counters().get(LinkCounter::kFlitsReceived), 0U);
  // A flit header holds kind, lane, flags, size, numbers, credit and check in 16 bytes, and no address.
  EXPECT_EQ(sizeof(FlitHeader), 16U);
}

TEST_P(SanSw, SAN_SW_05_one_table_for_all_inputs_or_one_each) {
  covers("SAN-SW-05");
  for (const bool per_input : {false, true}) {
    TestFabric fabric(tables(per_input));
    const Lid alias = aliased(fabric);
    fabric.fabric->forwarding().set_for(1, alias, 2);
    EXPECT_EQ(fabric.fabric->forwarding().per_input(), per_input);
    for (int round = 0; round < 3; ++round) {
      for (const uint32_t from : {0U, 3U}) ASSERT_TRUE(fabric.send(from, TestCell{.dlid = alias}));
      fabric.run(5);
    }
    // From node 0 the cell goes to port 2. From node 3 it does too with one table, but to port 3 with one per
    // input.
    EXPECT_EQ(fabric.received[1].size(), per_input ? 3U : 6U);
    EXPECT_EQ(fabric.received[2].size(), per_input ? 3U : 0U);
  }
}

/// The DLID alone decides: neither the sender, nor the load of the chosen output, nor a free output that also
/// leads to a node changes it.
TEST_P(SanSw, SAN_SW_05_the_output_does_not_depend_on_sender_or_load) {
  covers("SAN-SW-05");
  for (const bool per_input : {false, true}) {
    TestFabric fabric(tables(per_input));
    const Lid alias = aliased(fabric);
    uint64_t sent = 0;
    const auto send_all = [&] {
      for (const uint32_t from : {0U, 1U, 3U}) {
        while (fabric.send(from, TestCell{.dlid = alias, .payload_bytes = 200})) ++sent;
      }
    };
    fabric.freeze(2, true);  // the output stands still
    for (int turn = 0; turn < 50; ++turn) {
      send_all();
      fabric.step();
    }
    const uint64_t waiting = sent;
    EXPECT_GT(waiting, 3U * 32U) << "inputs and the output are full";
    fabric.freeze(2, false);
    for (int turn = 0; turn < 50; ++turn) {
      send_all();
      fabric.step();
    }
    fabric.run(2000);
    EXPECT_GT(sent, waiting);
    EXPECT_EQ(fabric.received[2].size(), sent);
    for (const size_t other : {size_t{0}, size_t{1}, size_t{3}}) EXPECT_TRUE(fabric.received[other].empty());
    EXPECT_EQ(fabric.count(3, SwitchPortCounter::kCellsOut), sent);
    EXPECT_EQ(fabric.drops(), 0U);
  }
}

TEST_P(SanNode, SAN_NODE_01_a_switch_neither_makes_nor_swallows_frames) {
  covers("SAN-NODE-01");
  for (const uint32_t flit_payload : {0U, 96U}) {
    TestFabric fabric(fabric_of(3, flit_payload));
    uint64_t sent = 0;
    for (int turn = 0; turn < 300; ++turn) {
      for (uint32_t from = 0; from < 3; ++from) {
        const Lid to(static_cast<uint16_t>(1 + fabric.random.below(3)));
        if (fabric.send(from, TestCell{.dlid = to, .payload_bytes = 200})) ++sent;
      }
      fabric.step();
      fabric.expect_conserved();
    }
    fabric.run(500);
    uint64_t received = 0;
    for (const auto& node : fabric.received) received += node.size();
    EXPECT_EQ(received, sent);
    EXPECT_EQ(fabric.total(SwitchPortCounter::kCellsIn), sent);
    EXPECT_EQ(fabric.total(SwitchPortCounter::kCellsOut), sent);
  }
}

/// @return the cells that node 0 gets through to node 1 while node 1 sends nothing, or at full rate
size_t SanNode::throughput(bool other_way_too) {
  TestFabric fabric(fabric_of(2));
  for (int turn = 0; turn < 200; ++turn) {
    while (fabric.send(0, TestCell{.dlid = Lid(2)})) continue;
    while (other_way_too && fabric.send(1, TestCell{.dlid = Lid(1)})) continue;
    fabric.step();
  }
  EXPECT_EQ(fabric.received[0].size() > 400, other_way_too);
  return fabric.received[1].size();
}

TEST_P(SanNode, SAN_NODE_02_both_directions_at_once) {
  covers("SAN-NODE-02");
  const size_t alone = throughput(false);
  const size_t both = throughput(true);
  EXPECT_GT(alone, 400U);
  EXPECT_GE(both * 100, alone * 95);
}

TEST_P(PushNode, PUSH_NODE_02_each_port_has_an_address_of_its_own) {
  covers("PUSH-NODE-02");
  const NodeEntry a{"a", Guid(0xA), Lid(1)};
  EXPECT_TRUE(Admission::check({a, {"b", Guid(0xB), Lid(2)}}, 2).ok());
  EXPECT_FALSE(Admission::check({a, {"b", Guid(0xB), Lid(1)}}, 2).ok());
  EXPECT_FALSE(Admission::check({a, {"b", Guid(0xA), Lid(2)}}, 2).ok());
  // Each port learns its own address: the addresses after start-up are all different.
  TestFabric fabric(fabric_of(4));
  std::vector<uint16_t> lids;
  for (const auto& node : fabric.nodes) lids.push_back(node->info().lid.value());
  EXPECT_EQ(lids, (std::vector<uint16_t>{1, 2, 3, 4}));
  // An endnode cannot send with another endnode's source address.
  ASSERT_TRUE(fabric.send(0, make_cell({.dlid = Lid(2), .slid = Lid(3)})));
  fabric.run(5);
  EXPECT_TRUE(fabric.received[1].empty());
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropForeignSource), 1U);
}

}  // namespace
}  // namespace weft::test
