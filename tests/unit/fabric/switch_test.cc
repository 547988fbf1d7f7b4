#include "fabric/switch/switch.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

struct Case {
  const char* name;
  uint32_t flit_payload_bytes;
  uint32_t credits;
  bool cut_through;
  bool one_cell_per_lane;
};

class SwitchTraffic : public ::testing::TestWithParam<Case> {
 protected:
  TestFabricConfig config() const {
    TestFabricConfig out;
    out.switching = small_switch(GetParam().flit_payload_bytes, GetParam().credits);
    out.switching.link.cut_through = GetParam().cut_through;
    out.switching.one_cell_per_lane = GetParam().one_cell_per_lane;
    out.nodes = 3;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Cases, SwitchTraffic,
    ::testing::Values(Case{"whole", 0, 32, false, false}, Case{"whole_one_credit", 0, 1, false, false},
                      Case{"flits96", 96, 32, false, false}, Case{"flits96_four", 96, 4, false, false},
                      Case{"cut_through", 96, 32, true, false},
                      Case{"cut_through_one_credit", 96, 1, true, false}, Case{"strict", 96, 32, true, true},
                      Case{"strict_stored", 96, 4, false, true}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

/// All nodes send to all on all lanes; per source, destination and lane everything arrives once and in order.
void all_to_all(TestFabric& fabric, int turns) {
  std::map<std::array<uint32_t, 3>, uint32_t> sent;
  for (int turn = 0; turn < turns; ++turn) {
    for (uint32_t from = 0; from < 3; ++from) {
      const auto to = static_cast<uint32_t>(fabric.random.below(3));
      const auto lane = static_cast<uint32_t>(fabric.random.below(4));
      const std::array<uint32_t, 3> flow{from, to, lane};
      const uint32_t number = sent.contains(flow) ? sent[flow] : 0;
      TestCell cell;
      cell.dlid = Lid(static_cast<uint16_t>(to + 1));
      cell.vl = VirtualLane(static_cast<uint8_t>(lane));
      cell.number = number;
      cell.payload_bytes = static_cast<uint32_t>(fabric.random.below(257));
      if (fabric.send(from, cell)) sent[flow] = number + 1;
    }
    fabric.step();
    fabric.expect_conserved();
  }
  fabric.run(3000, 10us);
  std::map<std::array<uint32_t, 3>, uint32_t> got;
  for (uint32_t to = 0; to < 3; ++to) {
    for (const std::vector<std::byte>& bytes : fabric.received[to]) {
      CellView view;
      ASSERT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
      EXPECT_EQ(view.dlid.value(), to + 1);
      uint32_t& next = got[{view.slid.value() - 1U, to, view.vl.value()}];
      EXPECT_EQ(view.psn.value(), next);
      ++next;
    }
  }
  EXPECT_EQ(sent, got);
  EXPECT_EQ(fabric.drops(), 0U);
  EXPECT_EQ(fabric.fabric->cells_held(), 0U);
  fabric.expect_conserved();
}

TEST_P(SwitchTraffic, all_to_all_loses_nothing) {
  TestFabric fabric(config());
  all_to_all(fabric, 3000);
}

TEST_P(SwitchTraffic, all_to_all_over_faulty_links) {
  TestFabricConfig with_faults = config();
  with_faults.faults.drop_ppm = with_faults.faults.corrupt_ppm = 10'000;
  with_faults.faults.duplicate_ppm = with_faults.faults.reorder_ppm = 5'000;
  with_faults.receiver_rereads = GetParam().credits == 1;
  TestFabric fabric(with_faults);
  all_to_all(fabric, 1000);
}

/// Bursts for changing destinations and lanes, with cells among them that name another source.
TEST_P(SwitchTraffic, a_burst_with_foreign_cells_goes_each_its_way) {
  TestFabric fabric(config());
  std::map<std::array<uint32_t, 2>, uint32_t> sent;
  uint64_t foreign = 0;
  TestCell cell;
  cell.payload_bytes = 8;
  for (int turn = 0; turn < 400; ++turn) {
    for (int i = 0; i < 8; ++i) {
      if (fabric.random.below(3) == 0) {
        cell.dlid = Lid(static_cast<uint16_t>(fabric.random.below(3) + 1));
        cell.vl = VirtualLane(static_cast<uint8_t>(fabric.random.below(2)));
      }
      cell.slid = Lid(fabric.random.below(8) == 0 ? 2 : 1);
      uint32_t& next = sent[{uint32_t{cell.dlid.value()}, uint32_t{cell.vl.value()}}];
      cell.number = next;
      if (!fabric.send(0, make_cell(cell))) continue;
      foreign += cell.slid == Lid(2) ? 1U : 0U;
      next += cell.slid == Lid(1) ? 1U : 0U;
    }
    fabric.step();
    fabric.expect_conserved();
  }
  fabric.run(3000, 10us);
  std::map<std::array<uint32_t, 2>, uint32_t> got;
  for (uint32_t to = 0; to < 3; ++to) {
    for (const std::vector<std::byte>& bytes : fabric.received[to]) {
      CellView view;
      ASSERT_EQ(decode_cell(bytes, CrcCheck::kVerify, view), CellError::kNone);
      ASSERT_EQ(view.dlid.value(), to + 1);
      ASSERT_EQ(view.slid, Lid(1));
      ASSERT_EQ(view.psn.value(), (got[{to + 1, view.vl.value()}]++));
    }
  }
  std::erase_if(sent, [](const auto& flow) { return flow.second == 0; });
  EXPECT_EQ(sent, got);
  EXPECT_GT(foreign, 0U);
  EXPECT_EQ(fabric.count(1, SwitchPortCounter::kDropForeignSource), foreign);
  EXPECT_EQ(fabric.drops(), foreign);
  fabric.expect_conserved();
}

}  // namespace
}  // namespace weft::test
