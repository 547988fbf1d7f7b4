// Clauses about all hops, over two switches in a row.
#include <gtest/gtest.h>

#include "tests/support/requirement.h"
#include "tests/support/switch_row.h"

namespace weft::test {
using namespace fabric;
namespace {

using SanCascade = SwitchRow;

TEST_F(SanCascade, SAN_VL_02_lane_is_equal_on_all_hops) {
  covers("SAN-VL-02");
  constexpr uint8_t kLanes = 4;
  const auto sent_on = [](const LinkEngine& link, uint8_t lane) {
    return link.lane(VirtualLane(lane)).sent();
  };
  for (uint8_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i <= lane; ++i) ASSERT_TRUE(a->send({.vl = VirtualLane(lane), .number = lane}));
    run(2);
  }
  run(10);
  ASSERT_EQ(b->bytes.size(), 10U);
  for (uint8_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_EQ(sent_on(a->link->link(), lane), lane + 1U) << "from the source";
    EXPECT_EQ(sent_on(*s1->core.port(2).link, lane), lane + 1U) << "between the switches";
    EXPECT_EQ(sent_on(*s2->core.port(1).link, lane), lane + 1U) << "to the destination";
  }
  for (const std::vector<std::byte>& cell : b->bytes)
    EXPECT_EQ(CellHead(cell.data()).vl().value(), cell_number(cell));
}

TEST_F(SanCascade, SAN_SW_01_cascaded_switches_forward_by_dlid_and_change_nothing) {
  covers("SAN-SW-01");
  const std::vector<std::byte> cell =
      make_cell({.dlid = Lid(2), .slid = Lid(1), .number = 7, .payload_bytes = 200});
  ASSERT_TRUE(send_cell(a->port, cell));
  run(5);
  ASSERT_EQ(b->bytes.size(), 1U);
  EXPECT_EQ(b->bytes[0], cell);
  // Another DLID leaves through another port: here back to the source itself, with no second switch.
  ASSERT_TRUE(a->send({.dlid = Lid(1), .slid = Lid(1), .number = 8}));
  run(5);
  EXPECT_EQ(b->bytes.size(), 1U);
  EXPECT_EQ(a->received, std::vector<uint32_t>{8});
}

TEST_F(SanCascade, SAN_NODE_01_switches_in_a_row_neither_make_nor_swallow_frames) {
  covers("SAN-NODE-01");
  expect_both_ways(1, 300);
  for (const SwitchBox* box : {s1.get(), s2.get()}) {
    uint64_t in = 0;
    uint64_t out = 0;
    for (const PortNumber port : {PortNumber{1}, PortNumber{2}}) {
      in += box->core.port(port).counters.get(SwitchPortCounter::kCellsIn);
      out += box->core.port(port).counters.get(SwitchPortCounter::kCellsOut);
    }
    EXPECT_EQ(in, 600U);
    EXPECT_EQ(out, 600U);
  }
}

}  // namespace
}  // namespace weft::test
