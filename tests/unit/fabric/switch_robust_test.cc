// What a switch does when peers misbehave, die or freeze: each answer under its own counter, and nobody else
// suffers.
#include <gtest/gtest.h>

#include <set>

#include "tests/support/reason_table.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

TestFabricConfig robust_fabric(uint32_t nodes, uint32_t flit_payload_bytes = 0, uint32_t credits = 8) {
  TestFabricConfig config;
  config.switching = small_switch(flit_payload_bytes, credits);
  config.nodes = nodes;
  return config;
}

/// One flit from node 0 on lane 0, whatever is in it.
void send_raw(TestFabric& fabric, int flags, std::span<const std::byte> bytes) {
  LinkEngine& sender = fabric.link(0, kNode);
  std::byte* to = sender.claim(VirtualLane(0));
  ASSERT_NE(to, nullptr);
  std::copy(bytes.begin(), bytes.end(), to);
  sender.commit({VirtualLane(0), static_cast<uint8_t>(flags), static_cast<uint32_t>(bytes.size()), 0});
}

/// A cell from node 0 to node 1 whose bytes from `offset` on are `values`, under a right CRC.
void send_changed(TestFabric& fabric, size_t offset, std::initializer_list<int> values) {
  std::vector<std::byte> cell = make_cell({});
  for (const int value : values) cell[offset++] = static_cast<std::byte>(value);
  const size_t covered = cell.size() - kCrcBytes;
  store_be(cell.data() + covered, crc32c({cell.data(), covered}));
  std::byte* to = fabric.nodes[0]->claim(VirtualLane(0), static_cast<uint32_t>(cell.size()));
  ASSERT_NE(to, nullptr);
  std::memcpy(to, cell.data(), cell.size());
  fabric.nodes[0]->commit(VirtualLane(0), static_cast<uint32_t>(cell.size()), cell_crc(cell));
}

/// What makes the switch drop one cell of port 1, by the name it is counted under. Two nodes unless told
/// otherwise.
struct Drop {
  SwitchPortCounter reason;
  void (*provoke)(TestFabric& fabric);
  void (*change)(TestFabricConfig& config) = nullptr;
};

void in_small_flits(TestFabricConfig& config) {
  config.switching.link.flit_payload_bytes = kFlitPayloadBytesConformance;
}
void in_small_flits_cut_through(TestFabricConfig& config) {
  in_small_flits(config);
  config.switching.link.cut_through = true;
}

constexpr std::array kDrops{
    Drop{SwitchPortCounter::kDropTooShort,
         [](TestFabric& at) { send_raw(at, kFlitHead | kFlitTail, std::array<std::byte, 20>{}); },
         in_small_flits},
    Drop{SwitchPortCounter::kDropVersion, [](TestFabric& at) { send_changed(at, 12, {9}); }},
    Drop{SwitchPortCounter::kDropAddress, [](TestFabric& at) { send_changed(at, 0, {9}); }},
    Drop{SwitchPortCounter::kDropAddress,
         [](TestFabric& at) {
           send_changed(at, 4, {0, 0});
         }},
    Drop{SwitchPortCounter::kDropAddress,
         [](TestFabric& at) {
           send_changed(at, 4, {0xFF, 0xFF});
         }},
    Drop{SwitchPortCounter::kDropLaneMismatch, [](TestFabric& at) { send_changed(at, 15, {1}); }},
    Drop{SwitchPortCounter::kDropForeignSource, [](TestFabric& at) { send_changed(at, 11, {2}); }},
    Drop{SwitchPortCounter::kDropForeignSource, [](TestFabric& at) { send_changed(at, 9, {1}); }},
    Drop{SwitchPortCounter::kDropMulticast,
         [](TestFabric& at) { ASSERT_TRUE(at.send(0, TestCell{.dlid = Lid(0xC000), .payload_bytes = 200})); },
         in_small_flits},
    Drop{SwitchPortCounter::kDropMulticastRate,
         [](TestFabric& at) {
           for (int i = 0; i < 4097; ++i, at.run(2)) ASSERT_TRUE(at.send(0, TestCell{.dlid = Lid(0xC000)}));
           EXPECT_EQ(at.received[1].size(), 4096U) << "the burst";
         },
         [](TestFabricConfig& config) { config.switching.copies_per_second = 10; }},
    Drop{SwitchPortCounter::kDropForeignSubnet, [](TestFabric& at) { send_changed(at, 3, {1}); }},
    Drop{SwitchPortCounter::kDropNoRoute, [](TestFabric& at) { send_changed(at, 5, {99}); }},
    Drop{SwitchPortCounter::kDropPortDown,
         [](TestFabric& at) {
           at.cable(1).unplug();
           at.run(5);
           ASSERT_TRUE(at.send(0, TestCell{}));
         }},
    Drop{SwitchPortCounter::kDropNoLane,
         [](TestFabric& at) { ASSERT_TRUE(at.send(0, TestCell{.vl = VirtualLane(3)})); },
         [](TestFabricConfig& config) { config.node_lanes = 2; }},
    Drop{SwitchPortCounter::kDropManagementFull,
         [](TestFabric& at) {  // credits of the output run out on every lane but 15: fill its ring
           at.freeze(1, true);
           while (at.count(1, SwitchPortCounter::kDropManagementFull) == 0 && at.clock.now() < Instant(1s)) {
             static_cast<void>(at.send(0, TestCell{.vl = kVlManagement, .opcode = Opcode::kUdSend}));
             at.step(20us);
           }
         },
         [](TestFabricConfig& config) { config.switching.management_per_second = 100'000; }},
    Drop{SwitchPortCounter::kDropManagementRate,
         [](TestFabric& at) {
           for (int i = 0; i < 65; ++i, at.run(2)) {
             ASSERT_TRUE(at.send(0, TestCell{.vl = kVlManagement, .opcode = Opcode::kUdSend}));
           }
           EXPECT_EQ(at.received[1].size(), 64U) << "the burst";
         },
         [](TestFabricConfig& config) { config.switching.management_per_second = 10; }},
    Drop{SwitchPortCounter::kDropGsiRate,
         [](TestFabric& at) {
           for (int i = 0; i < 257; ++i, at.run(2)) {
             ASSERT_TRUE(at.send(0, TestCell{.dest_qpn = kQpnGsi, .opcode = Opcode::kUdSend}));
           }
           EXPECT_EQ(at.received[1].size(), 256U) << "the burst";
         },
         [](TestFabricConfig& config) { config.switching.gsi_per_second = 10; }},
    Drop{SwitchPortCounter::kDropStandstill,
         [](TestFabric& at) {  // eight on the link, four that wait; one more would crowd others out
           at.freeze(1, true);
           for (int i = 0; i < 12; ++i, at.run(20)) ASSERT_TRUE(at.send(0, TestCell{}));
           at.run(10, 10ms);
           EXPECT_EQ(at.drops(), 0U) << "half of the lane is theirs";
           ASSERT_TRUE(at.send(0, TestCell{}));
           at.run(20);
           at.freeze(1, false);
           at.run(300, 1ms);
           EXPECT_EQ(at.received[1].size(), 12U);
         }},
    Drop{SwitchPortCounter::kDropLifetime,
         [](TestFabric& at) {
           at.freeze(1, true);
           for (int i = 0; i < 9; ++i, at.run(20)) ASSERT_TRUE(at.send(0, TestCell{}));
           at.run(30, 100ms);
         }},
    Drop{SwitchPortCounter::kDropLinkReset,
         [](TestFabric& at) {
           send_flit(at.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
           at.run(5);
           at.cable(0).unplug();
         },
         in_small_flits},
    Drop{SwitchPortCounter::kDropPoisoned,
         [](TestFabric& at) {
           send_flit(at.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
           send_raw(at, kFlitTail | kFlitPoison, {});
         },
         in_small_flits},
    Drop{SwitchPortCounter::kDropTooLong,
         [](TestFabric& at) {
           const std::array<std::byte, 96> more{};
           send_flit(at.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
           for (int i = 0; i < 6; ++i, at.run(50)) send_raw(at, 0, more);
           send_raw(at, kFlitTail, more);
         },
         in_small_flits},
    Drop{SwitchPortCounter::kDropTooLong,
         [](TestFabric& at) {  // its head is through already: the next hop is told
           const std::array<std::byte, 96> more{};
           send_flit(at.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
           for (int i = 0; i < 20; ++i, at.run(50)) send_raw(at, 0, more);
           EXPECT_EQ(at.nodes[1]->counters().get(CellPortCounter::kPoisoned), 1U);
           ASSERT_TRUE(at.send(1, TestCell{.dlid = Lid(2)}));
           at.run(50);
           EXPECT_EQ(at.received[1].size(), 1U) << "the lane is free for others though the tail never came";
         },
         in_small_flits_cut_through},
    Drop{SwitchPortCounter::kDropLoop,
         [](TestFabric& at) {  // a switch on port 1 sends what would go back to it
           ASSERT_TRUE(at.send(0, make_cell({.dlid = Lid(9), .slid = Lid(7)})));
         },
         [](TestFabricConfig& config) { config.first_is_a_switch = true; }},
    Drop{SwitchPortCounter::kDropReversePath,
         [](TestFabric& at) {  // a switch on port 1 sends for a node on another port
           ASSERT_TRUE(at.send(0, make_cell({.dlid = Lid(2), .slid = Lid(3)})));
         },
         [](TestFabricConfig& config) { config.first_is_a_switch = true; }},
    Drop{SwitchPortCounter::kDropForeignSource,
         [](TestFabric& at) { send_changed(at, 9, {1}); },  // or for another subnet
         [](TestFabricConfig& config) { config.first_is_a_switch = true; }},
    Drop{SwitchPortCounter::kDropFault,
         [](TestFabric& at) {
           FaultRule rule;
           rule.port = 1;
           ASSERT_TRUE(at.fabric->faults().add(rule, at.clock.now()).ok());
           ASSERT_TRUE(at.send(0, TestCell{.dlid = Lid(2)}));
         }},
};
static_assert(names_every_reason(kDrops, kFirstDrop, SwitchPortCounter::kCount));

TEST(SwitchIngress, each_reason_to_drop_a_cell_has_its_own_counter) {
  for (const Drop& one : kDrops) {
    const std::string_view name = CounterSet<SwitchPortCounter>::label(one.reason);
    TestFabricConfig config = robust_fabric(2);
    if (one.change != nullptr) one.change(config);
    TestFabric fabric(config);
    one.provoke(fabric);
    fabric.run(60);
    EXPECT_EQ(fabric.count(1, one.reason), 1U) << name;
    EXPECT_EQ(fabric.drops(), 1U) << name << ": and under no other";
    fabric.expect_conserved();
    EXPECT_EQ(fabric.link(1, kSwitch).incarnation(), 1U) << name << ": nobody else's link suffers";
    if (fabric.link(0, kNode).state() != LinkState::kUp) continue;
    EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U) << name << ": each flit's credit, once";
  }
}

TEST(SwitchIngress, a_table_for_each_input_shows_the_way_back_from_the_output) {
  TestFabricConfig config = robust_fabric(3);
  config.switching.table_per_input = true;
  config.first_is_a_switch = true;
  TestFabric fabric(config);
  fabric.fabric->forwarding().set_for(2, Lid(9), 3);  // node 2 would answer LID 9 elsewhere
  for (const uint16_t to : {uint16_t{2}, uint16_t{3}})
    ASSERT_TRUE(fabric.send(0, make_cell({.dlid = Lid(to), .slid = Lid(9)})));
  fabric.run(5);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropReversePath), 1U);
  EXPECT_TRUE(fabric.received[1].empty());
  EXPECT_EQ(fabric.received[2].size(), 1U);
}

TEST(SwitchIngress, credit_of_dropped_cells_comes_back) {
  TestFabric fabric(robust_fabric(2));
  fabric.cable(1).unplug();
  fabric.run(5);
  for (int i = 0; i < 20; ++i, fabric.run(30)) ASSERT_TRUE(fabric.send(0, TestCell{}));
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropPortDown), 20U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U);
}

TEST(SwitchLifetime, a_frozen_endnode_loses_its_cells_after_two_seconds_and_harms_nobody) {
  TestFabric fabric(robust_fabric(3));
  fabric.freeze(1, true);
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
    fabric.step();
  }
  EXPECT_EQ(fabric.link(1, kSwitch).state(), LinkState::kUp) << "frozen is not dead (decisions 2.9)";
  fabric.run(19, 100ms);
  EXPECT_EQ(fabric.drops(), 0U) << "back-pressure first: four cells crowd nobody";
  fabric.run(3, 100ms);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 4U);
  EXPECT_EQ(fabric.link(1, kSwitch).counters().get(LinkCounter::kPeerStalled), 1U);
  // From now on its cells go at once, and the lane is free for others.
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(3)}));
  fabric.run(5);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLifetime), 5U);
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

/// It froze for longer than a lifetime and went on. When it freezes again, it has a whole lifetime again.
TEST(SwitchLifetime, of_an_endnode_that_went_on_begins_anew) {
  TestFabric fabric(robust_fabric(3));
  const auto send = [&](int cells) {
    for (int i = 0; i < cells; ++i) {
      ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2)}));
      fabric.step();
    }
  };
  fabric.freeze(1, true);
  send(12);
  fabric.run(22, 100ms);
  send(1);
  const uint64_t lost = fabric.count(1, SwitchPortCounter::kDropLifetime);
  EXPECT_EQ(lost, 5U);
  fabric.freeze(1, false);
  fabric.run(300, 1ms);
  send(1);
  fabric.run(5);
  fabric.freeze(1, true);
  send(10);
  fabric.run(3, 100ms);
  send(1);
  EXPECT_EQ(fabric.drops(), lost) << "back-pressure first, once more";
  EXPECT_EQ(fabric.fabric->cells_held(), 3U);
  fabric.freeze(1, false);
  fabric.run(300, 1ms);
  EXPECT_EQ(fabric.received[1].size(), 8U + 1 + 11);
  fabric.expect_conserved();
}

/// Sends the head flit of a four-flit cell from node 0 to node 1 and lets it pass.
void begin_cell(TestFabric& fabric) {
  send_flit(fabric.link(0, kNode), make_cell({.payload_bytes = 256}), 0);
  fabric.run(10);
}

TEST(SwitchPoison, a_cell_whose_sender_dies_is_ended_and_the_lane_goes_on) {
  TestFabricConfig config = robust_fabric(3, 96);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  begin_cell(fabric);
  // Another sender waits behind the open cell.
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(2), .payload_bytes = 256}));
  fabric.run(20);
  EXPECT_TRUE(fabric.received[1].empty());
  fabric.cable(0).unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.nodes[1]->counters().get(CellPortCounter::kPoisoned), 1U);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLinkReset), 1U);
  EXPECT_EQ(fabric.count(2, SwitchPortCounter::kPoisonOut), 1U);
  fabric.expect_conserved();
  // The sender returns as a new incarnation with all its credit.
  EXPECT_EQ(fabric.cable(0).plug(fabric.clock.now()), LinkRefusal::kNone);
  fabric.run(2000);
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(20);
  EXPECT_EQ(fabric.received[1].size(), 2U);
}

TEST(SwitchPoison, the_rest_of_a_cell_never_follows_to_the_next_link_of_its_output) {
  TestFabricConfig config = robust_fabric(2, 96);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  begin_cell(fabric);
  fabric.cable(1).unplug();
  fabric.run(5);
  EXPECT_EQ(fabric.cable(1).plug(fabric.clock.now()), LinkRefusal::kNone);
  fabric.run(2000);
  const std::vector<std::byte> cell = make_cell({.payload_bytes = 256});
  for (size_t flit = 1; flit < 4; ++flit) send_flit(fabric.link(0, kNode), cell, flit);
  fabric.run(50);
  EXPECT_EQ(fabric.link(1, kNode).counters().get(LinkCounter::kBadFraming), 0U);
  EXPECT_EQ(fabric.link(1, kNode).incarnation(), 2U);
  EXPECT_TRUE(fabric.received[1].empty());
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(50);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U);
  fabric.expect_conserved();
}

/// The next hop waits for the rest of the cell until it hears of its end.
TEST(SwitchPoison, is_told_by_a_link_that_rests) {
  TestFabricConfig config = robust_fabric(2, 96);
  config.switching.link.cut_through = true;
  config.switching.links_awake = 0;
  TestFabric fabric(config);
  begin_cell(fabric);
  fabric.run(10, 1ms);
  ASSERT_TRUE(fabric.fabric->links_rest());
  fabric.cable(0).unplug();
  fabric.run(20);
  EXPECT_EQ(fabric.nodes[1]->counters().get(CellPortCounter::kPoisoned), 1U);
}

/// The tail that ends the cell waits for credit, and the link by which it would go ends too.
TEST(SwitchPoison, an_owed_tail_never_goes_by_the_next_link_of_its_output) {
  TestFabricConfig config = robust_fabric(2, 96, 3);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  fabric.freeze(1, true);
  const std::vector<std::byte> cell = make_cell({.payload_bytes = 256});
  for (size_t flit = 0; flit < 3; ++flit) send_flit(fabric.link(0, kNode), cell, flit);
  fabric.run(10);
  fabric.cable(0).unplug();
  fabric.run(10);
  fabric.cable(1).unplug();
  fabric.run(5);
  for (const size_t link : {0U, 1U})
    ASSERT_EQ(fabric.cable(link).plug(fabric.clock.now()), LinkRefusal::kNone);
  fabric.freeze(1, false);
  fabric.run(2000);
  EXPECT_EQ(fabric.count(2, SwitchPortCounter::kPoisonOut), 0U);
  EXPECT_EQ(fabric.link(1, kNode).counters().get(LinkCounter::kBadFraming), 0U);
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(50);
  EXPECT_EQ(fabric.received[1].size(), 1U);
}

/// Its first flit waits behind the open cell of another sender.
TEST(SwitchPoison, a_cell_whose_sender_dies_before_its_turn_comes_leaves_the_turn_to_the_next) {
  TestFabricConfig config = robust_fabric(4, 96);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  begin_cell(fabric);
  send_flit(fabric.link(2, kNode), make_cell({.slid = Lid(3), .payload_bytes = 256}), 0);
  fabric.run(10);
  fabric.cable(2).unplug();
  fabric.run(10);
  EXPECT_EQ(fabric.count(3, SwitchPortCounter::kDropLinkReset), 1U);
  ASSERT_TRUE(fabric.send(3, TestCell{.dlid = Lid(2), .payload_bytes = 256}));
  const std::vector<std::byte> cell = make_cell({.payload_bytes = 256});
  for (size_t flit = 1; flit < 4; ++flit) send_flit(fabric.link(0, kNode), cell, flit);
  fabric.run(50);
  EXPECT_EQ(fabric.received[1].size(), 2U);
  fabric.expect_conserved();
}

TEST(SwitchPoison, a_stored_cell_whose_sender_dies_never_leaves) {
  TestFabric fabric(robust_fabric(2, 96));
  begin_cell(fabric);
  fabric.cable(0).unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.traces[1]->count(kSwitch, FlitKind::kData), 0U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLinkReset), 1U);
  fabric.expect_conserved();
}

TEST(SwitchForward, inputs_of_a_lane_are_served_in_turn) {
  TestFabric fabric(robust_fabric(4));
  fabric.freeze(3, true);
  for (int i = 0; i < 200; ++i, fabric.step()) {
    for (uint32_t from = 0; from < 3; ++from) static_cast<void>(fabric.send(from, TestCell{.dlid = Lid(4)}));
  }
  EXPECT_EQ(fabric.fabric->cells_held(), 24U) << "each of them has used up its credit";
  fabric.freeze(3, false);
  fabric.run(50);
  ASSERT_EQ(fabric.received[3].size(), 32U);
  for (size_t i = 8; i + 3 <= 32; i += 3) {  // behind those that were on the link already
    std::set<uint16_t> sources;
    for (size_t of = i; of < i + 3; ++of) sources.insert(load_be<uint16_t>(&fabric.received[3][of][10]));
    EXPECT_EQ(sources.size(), 3U) << i;
  }
}

/// Cells that pass at once are a turn like any other. The first eight use up the credit of the output.
TEST(SwitchForward, an_input_whose_cells_passed_at_once_comes_last) {
  TestFabric fabric(robust_fabric(4));
  fabric.freeze(3, true);
  for (const uint32_t from : {0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 0U, 1U, 2U}) {
    ASSERT_TRUE(fabric.send(from, TestCell{.dlid = Lid(4)}));
    fabric.run(5);
  }
  EXPECT_EQ(fabric.fabric->cells_held(), 3U);
  fabric.freeze(3, false);
  fabric.run(50);
  ASSERT_EQ(fabric.received[3].size(), 11U);
  std::vector<uint16_t> sources;
  for (size_t i = 8; i < 11; ++i) sources.push_back(load_be<uint16_t>(&fabric.received[3][i][10]));
  EXPECT_EQ(sources, (std::vector<uint16_t>{2, 3, 1}));
}

TEST(SwitchReset, an_output_that_dies_returns_the_credit_of_what_waited_for_it) {
  TestFabric fabric(robust_fabric(3));
  fabric.freeze(1, true);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(fabric.send(0, TestCell{.dlid = Lid(2)}));
    fabric.step();
  }
  EXPECT_GT(fabric.fabric->cells_held(), 0U);
  fabric.cable(1).unplug();
  fabric.run(50);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  EXPECT_EQ(fabric.link(0, kNode).credits(VirtualLane(0)), 8U);
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropPortDown), 0U);
  EXPECT_GT(fabric.link(1, kSwitch).counters().get(LinkCounter::kFlitsLostAtReset), 0U) << "decisions 2.11";
  fabric.expect_conserved();
}

/// Both links of a cell that waits are new ones when a switch that was frozen looks again.
TEST(SwitchReset, a_new_link_gets_no_credit_of_the_old_one) {
  TestFabric fabric(robust_fabric(3));
  fabric.freeze(0, true);
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(fabric.send(2, TestCell{.dlid = Lid(1)}));
    fabric.step();
  }
  EXPECT_GT(fabric.fabric->cells_held(), 0U);
  for (const size_t link : {size_t{0}, size_t{2}}) {
    fabric.cable(link).unplug();
    EXPECT_EQ(fabric.cable(link).plug(fabric.clock.now()), LinkRefusal::kNone);
  }
  fabric.freeze(0, false);
  fabric.run(2000);
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(1)}));
  fabric.run(50);
  EXPECT_FALSE(fabric.received[0].empty());
  EXPECT_EQ(fabric.link(2, kNode).counters().get(LinkCounter::kCreditBeyondSent), 0U);
  EXPECT_EQ(fabric.link(2, kNode).incarnation(), 2U);
  EXPECT_EQ(fabric.link(2, kNode).credits(VirtualLane(0)), 8U);
  fabric.expect_conserved();
}

TEST(SwitchReset, traffic_survives_links_that_come_and_go) {
  TestFabricConfig config = robust_fabric(3, 96, 16);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  const auto plug_all = [&] {
    for (uint32_t link = 0; link < 3; ++link) {
      if (fabric.cable(link).plugged()) continue;
      EXPECT_EQ(fabric.cable(link).plug(fabric.clock.now()), LinkRefusal::kNone);
    }
  };
  for (int turn = 0; turn < 20'000; ++turn) {
    for (uint32_t from = 0; from < 3; ++from) {
      const Lid to(static_cast<uint16_t>(1 + fabric.random.below(3)));
      static_cast<void>(fabric.send(from, TestCell{.dlid = to, .payload_bytes = 256}));
    }
    const auto victim = static_cast<size_t>(fabric.random.below(3));
    if (turn % 97 == 0) fabric.cable(victim).unplug();
    if (turn % 97 == 50) plug_all();
    fabric.step(20us);
    fabric.expect_conserved();
  }
  plug_all();
  fabric.run(3000, 10us);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  for (uint32_t link = 0; link < 3; ++link)
    EXPECT_EQ(fabric.cable(link).end(kNode).credits(VirtualLane(0)), 16U);
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
  uint32_t low_turns = 0;
  for (int turn = 0; turn < 200; ++turn) {
    const VlArbiter::Choice choice = arbiter.choose(0b111);
    arbiter.charge(64);
    if (choice.vl == VirtualLane(2)) continue;
    EXPECT_EQ(choice.bytes, 1U) << "one cell, then high again";
    ++low_turns;
  }
  EXPECT_GE(low_turns, 3U);
  EXPECT_FALSE(arbiter.configure(tables, 4).ok()) << "lane 3 would starve";
  tables.low.push_back({VirtualLane(3), 0});
  EXPECT_FALSE(arbiter.configure(tables, 4).ok()) << "nor does weight 0 let it send";
  tables.low.push_back({kVlManagement, 1});
  EXPECT_FALSE(arbiter.configure(tables, 3).ok());
}

}  // namespace
}  // namespace weft::test
