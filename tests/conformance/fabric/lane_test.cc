// SAN-VL: virtual lanes through links and switches.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/requirement.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr VirtualLane lane(uint32_t number) {
  return VirtualLane(static_cast<uint8_t>(number));
}

/// An endnode that takes flits from its link and returns credit on some lanes only.
class PickyNode {
 public:
  PickyNode(TestFabric& fabric, uint32_t node) : link_(fabric.link(node, kNode)) {
    fabric.freeze(node, true);
  }
  void take(uint32_t granting_lanes) {
    for (const RxFlit& flit : link_.receive()) {
      ++flits[flit.vl.value()];
      if (flit.head) order.push_back(flit.vl.value());
      if ((granting_lanes >> flit.vl.value() & 1) != 0) link_.grant(flit.vl, 1);
    }
    link_.release();
  }
  std::map<uint32_t, uint32_t> flits;
  std::vector<uint32_t> order;

 private:
  LinkEngine& link_;
};

class SanVl : public OverLinks {
 protected:
  uint32_t lane_0_throughput(bool stop_lane_1);
  uint32_t cells_before_an_urgent_one(const VlArbitration& tables);
};
INSTANTIATE_TEST_SUITE_P(Links, SanVl, kEveryLink, link_name);

/// A link builds one flit at a time: until commit(), every lane's claim() returns the same memory, and
/// afterwards
/// other memory. So flits leave one after another in the order of commit(), and each arrives as it was
/// written.
TEST_P(SanVl, SAN_VL_01_no_lane_gets_on_while_the_flit_of_another_is_made) {
  covers("SAN-VL-01");
  TestFabric fabric(fabric_of(2));
  LinkEngine& link = fabric.link(0, kNode);
  const std::array<uint8_t, 12> order{0, 1, 1, 2, 0, 3, 2, 1, 0, 0, 3, 1};
  std::byte* before = nullptr;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const std::vector<std::byte> cell = make_cell({.vl = lane(order[i]), .number = i, .payload_bytes = 200});
    std::byte* to = link.claim(lane(order[i]));
    ASSERT_NE(to, nullptr);
    EXPECT_NE(to, before);
    const size_t half = cell.size() / 2;
    std::memcpy(to, cell.data(), half);
    for (uint32_t other = 0; other < 4; ++other) EXPECT_EQ(link.claim(lane(other)), to) << other;
    std::memcpy(to + half, cell.data() + half, cell.size() - half);
    link.commit({lane(order[i]), kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
    before = to;
  }
  fabric.run(20);
  const std::vector<TracedFlit> flits = fabric.traces[0]->data(kNode);
  ASSERT_EQ(flits.size(), order.size());
  ASSERT_EQ(fabric.received[1].size(), order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(flits[i].fields.vl, lane(order[i])) << i;
    EXPECT_EQ(cell_number(flits[i].payload), i);
    const std::vector<std::byte> cell = make_cell({.vl = lane(order[i]), .number = i, .payload_bytes = 200});
    EXPECT_EQ(fabric.received[1][i], cell) << i;
  }
}

TEST_P(SanVl, SAN_VL_01_one_lane_at_a_time_on_a_link) {
  covers("SAN-VL-01");
  TestFabric fabric(fabric_of(2, 96));
  for (uint32_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(fabric.send(0, TestCell{.vl = lane(i % 2), .number = i, .payload_bytes = 100}));
    if (i % 5 == 0) fabric.step();
  }
  fabric.run(50);
  // Both lanes share one sequence of numbers: flit n + 1 begins after flit n has ended.
  std::map<uint32_t, uint32_t> per_lane;
  uint16_t expected = 1;
  for (const TracedFlit& flit : fabric.traces[0]->data(kNode)) {
    EXPECT_EQ(flit.fields.sequence, expected++);
    ++per_lane[flit.fields.vl.value()];
  }
  EXPECT_EQ(per_lane[0], 20U);
  EXPECT_EQ(per_lane[1], 20U);
}

TEST_P(SanVl, SAN_VL_02_frame_keeps_its_lane) {
  covers("SAN-VL-02");
  TestFabric fabric(fabric_of(2));
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(fabric.send(0, TestCell{.vl = lane(i), .number = i}));
  ASSERT_TRUE(fabric.send(0, TestCell{.vl = kVlManagement, .number = 15, .opcode = Opcode::kUdSend}));
  fabric.run(10);
  ASSERT_EQ(fabric.received[1].size(), 5U);
  for (const uint32_t hop : {0U, 1U}) {
    for (const TracedFlit& flit : fabric.traces[hop]->data(hop == 0 ? kNode : kSwitch)) {
      EXPECT_EQ(flit.fields.vl, CellHead(flit.payload.data()).vl());
      EXPECT_EQ(flit.fields.vl.value(), cell_number(flit.payload));
    }
  }
  // A cell that names another lane than its flit is refused.
  std::vector<std::byte> cell = make_cell({.vl = lane(1)});
  std::byte* to = fabric.nodes[0]->claim(lane(2), static_cast<uint32_t>(cell.size()));
  ASSERT_NE(to, nullptr);
  std::memcpy(to, cell.data(), cell.size());
  fabric.nodes[0]->commit(lane(2), static_cast<uint32_t>(cell.size()), cell_crc(cell));
  fabric.run(5);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropLaneMismatch), 1U);
}

/// @return the cells that lane 0 moves in a fixed time, with lane 1 running or without credit
uint32_t SanVl::lane_0_throughput(bool stop_lane_1) {
  TestFabric fabric(fabric_of(2, 0, 8));
  PickyNode receiver(fabric, 1);
  for (int turn = 0; turn < 400; ++turn) {
    for (const uint32_t vl : {0U, 1U}) static_cast<void>(fabric.send(0, TestCell{.vl = lane(vl)}));
    fabric.step();
    receiver.take(stop_lane_1 ? 0b01 : 0b11);
  }
  EXPECT_EQ(receiver.flits[1] <= 8, stop_lane_1);
  return receiver.flits[0];
}

TEST_P(SanVl, SAN_VL_03_a_stopped_lane_does_not_touch_another) {
  covers("SAN-VL-03");
  const uint32_t alone = lane_0_throughput(true);
  const uint32_t shared = lane_0_throughput(false);
  EXPECT_GT(shared, 100U);
  EXPECT_GE(alone, shared);
}

TEST_P(SanVl, SAN_VL_04_a_later_frame_passes_a_blocked_one) {
  covers("SAN-VL-04");
  TestFabric fabric(fabric_of(3, 0, 4));
  PickyNode blocked(fabric, 1);
  // Lane 1 towards node 1 fills up back to the sender and stays full.
  uint32_t stuck = 0;
  for (int turn = 0; turn < 100; ++turn) {
    if (fabric.send(0, TestCell{.dlid = Lid(2), .vl = lane(1)})) ++stuck;
    fabric.step();
    blocked.take(0);
  }
  ASSERT_GT(stuck, blocked.flits[1]);
  // Later cells on another lane pass, to another destination and to the same one.
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(3), .vl = lane(2)}));
  ASSERT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2), .vl = lane(2)}));
  fabric.run(5);
  blocked.take(0);
  EXPECT_EQ(fabric.received[2].size(), 1U);
  EXPECT_EQ(blocked.flits[2], 1U);
  EXPECT_LT(blocked.flits[1], stuck);
}

/// Nodes 2 and 3 offer node 1 twice what it takes on lanes 0 to 2. @return how many of those cells leave the
/// switch before a new cell of node 0 on lane 3, the maximum of several tries
uint32_t SanVl::cells_before_an_urgent_one(const VlArbitration& tables) {
  TestFabricConfig config = fabric_of(4, 0, 16);
  config.switching.arbitration = tables;
  TestFabric fabric(config);
  PickyNode receiver(fabric, 1);
  uint32_t worst = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (const uint32_t from : {2U, 3U}) {
      for (const uint32_t vl : {0U, 1U, 2U}) {
        while (fabric.send(from, TestCell{.dlid = Lid(2), .vl = lane(vl), .payload_bytes = 256})) continue;
      }
    }
    const bool urgent = turn % 20 == 19;
    if (urgent) {
      EXPECT_TRUE(fabric.send(0, TestCell{.dlid = Lid(2), .vl = lane(3), .payload_bytes = 16}));
    }
    fabric.traces[1]->clear();
    fabric.step();
    if (turn % 2 == 0) receiver.take(0b1111);
    if (!urgent) continue;
    const std::vector<TracedFlit> sent = fabric.traces[1]->data(kSwitch);
    const auto is_urgent = [](const TracedFlit& flit) { return flit.fields.vl == lane(3); };
    const auto at = std::find_if(sent.begin(), sent.end(), is_urgent);
    EXPECT_GT(sent.size(), 20U) << "the output has to be busy";
    worst = std::max(worst, static_cast<uint32_t>(at - sent.begin()));
  }
  return worst;
}

TEST_P(SanVl, SAN_VL_05_a_reserved_lane_is_served_at_once) {
  covers("SAN-VL-05");
  VlArbitration urgent_first;
  urgent_first.high = {{lane(3), 64}};
  urgent_first.low = {{lane(0), 64}, {lane(1), 64}, {lane(2), 64}};
  EXPECT_EQ(cells_before_an_urgent_one(urgent_first), 0U);
  // Without the table the same traffic delays the cell: the table keeps the lane free, not chance.
  EXPECT_GE(cells_before_an_urgent_one(equal_arbitration(4)), 8U);
}

TEST_P(SanVl, SAN_VL_07_frames_do_not_mix_on_a_lane) {
  covers("SAN-VL-07");
  for (const bool cut_through : {false, true}) {
    for (const bool strict : {false, true}) {
      TestFabricConfig config = fabric_of(4, 96, 16);
      config.switching.link.cut_through = cut_through;
      config.switching.one_cell_per_lane = strict;
      TestFabric fabric(config);
      std::array<uint32_t, 4> sent{};
      for (int turn = 0; turn < 500; ++turn) {
        for (const uint32_t from : {0U, 2U, 3U}) {
          const TestCell cell{
              .vl = lane(fabric.random.below(2) != 0 ? 1 : 0), .number = sent[from], .payload_bytes = 256};
          if (fabric.send(from, cell)) ++sent[from];
        }
        fabric.step();
      }
      fabric.run(200);
      EXPECT_EQ(fabric.received[1].size(), sent[0] + sent[2] + sent[3]);
      // Between head and tail of a frame the lane carries no other frame's head.
      std::array<bool, kVlCount> open{};
      for (const TracedFlit& flit : fabric.traces[1]->data(kSwitch)) {
        bool& inside = open[flit.fields.vl.value()];
        EXPECT_EQ((flit.fields.flags & kFlitHead) != 0, !inside);
        inside = (flit.fields.flags & kFlitTail) == 0;
      }
      for (const std::vector<std::byte>& cell : fabric.received[1]) {
        CellView view;
        EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
      }
    }
  }
}

TEST_P(SanVl, SAN_VL_07_a_frame_that_comes_flit_by_flit_has_its_lane_to_itself) {
  covers("SAN-VL-07");
  TestFabricConfig config = fabric_of(3, kFlitPayloadBytesConformance, 16);
  config.switching.link.cut_through = true;
  TestFabric fabric(config);
  LinkEngine& slow = fabric.link(0, kNode);
  const std::vector<std::byte> cell =
      make_cell({.dlid = Lid(2), .slid = Lid(1), .number = 1, .payload_bytes = 256});
  send_flit(slow, cell, 0);
  fabric.run(3);
  EXPECT_EQ(fabric.traces[1]->data(kSwitch).size(), 1U) << "its head has gone through";
  // Other cells to the same node: one on the blocked lane, one on another lane, which is not delayed.
  ASSERT_TRUE(fabric.send(2, TestCell{.number = 2, .payload_bytes = 256}));
  ASSERT_TRUE(fabric.send(2, TestCell{.vl = lane(1), .number = 3, .payload_bytes = 256}));
  fabric.run(20);
  for (size_t i = 1; i < 4; ++i) {
    send_flit(slow, cell, i);
    fabric.run(3);
  }
  fabric.run(20);
  std::vector<uint32_t> arrived;
  for (const std::vector<std::byte>& got : fabric.received[1]) arrived.push_back(cell_number(got));
  EXPECT_EQ(arrived, (std::vector<uint32_t>{3, 1, 2}));
}

TEST_P(SanVl, SAN_VL_07_strict_mode_moves_one_frame_per_lane_in_the_whole_switch) {
  covers("SAN-VL-07");
  TestFabricConfig config = fabric_of(4, kFlitPayloadBytesConformance, 16);
  config.switching.link.cut_through = true;
  config.switching.one_cell_per_lane = true;
  TestFabric fabric(config);
  // Half a frame from node 0 to node 1 holds the lane; the frame from node 2 to node 3 waits for its tail.
  const std::vector<std::byte> cell = make_cell({.dlid = Lid(2), .slid = Lid(1), .payload_bytes = 256});
  send_flit(fabric.link(0, kNode), cell, 0);
  fabric.run(3);
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(4), .payload_bytes = 256}));
  fabric.run(20);
  EXPECT_TRUE(fabric.received[3].empty());
  for (size_t i = 1; i < 4; ++i) send_flit(fabric.link(0, kNode), cell, i);
  fabric.run(20);
  EXPECT_EQ(fabric.received[1].size(), 1U);
  EXPECT_EQ(fabric.received[3].size(), 1U);
}

}  // namespace
}  // namespace weft::test
