// Counters of a switch port that count flits: what comes, what leaves, and what goes from ring to ring.
#include <gtest/gtest.h>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

using C = SwitchPortCounter;

struct Row {
  const char* name;
  uint32_t flit_payload_bytes;  // 0: a cell is one flit
  bool cut_through;
  bool from_ring_to_ring;  // all its flits, if nothing waits for the output
};

class SwitchCounts : public ::testing::TestWithParam<Row> {
 protected:
  TestFabricConfig config() const {
    TestFabricConfig out;
    out.switching = small_switch(GetParam().flit_payload_bytes);
    out.switching.link.cut_through = GetParam().cut_through;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Rows, SwitchCounts,
                         ::testing::Values(Row{"whole", 0, false, true}, Row{"stored", 96, false, false},
                                           Row{"cut_through", 96, true, true}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_P(SwitchCounts, each_flit_counts_at_the_port_where_it_comes_and_where_it_leaves) {
  TestFabric fabric(config());
  const TestCell cell{.dlid = Lid(2), .payload_bytes = 200};
  const auto bytes = static_cast<uint32_t>(make_cell(cell).size());
  const uint32_t flit_bytes = GetParam().flit_payload_bytes;
  const uint64_t flits = flit_bytes == 0 ? 1 : (bytes + flit_bytes - 1) / flit_bytes;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(fabric.send(0, cell));
    fabric.run(20);
  }
  ASSERT_EQ(fabric.received[1].size(), 3U);
  EXPECT_EQ(fabric.count(1, C::kCellsIn), 3U);
  EXPECT_EQ(fabric.count(1, C::kFlitsIn), 3 * flits);
  EXPECT_EQ(fabric.count(2, C::kCellsOut), 3U);
  EXPECT_EQ(fabric.count(2, C::kFlitsOut), 3 * flits);
  EXPECT_EQ(fabric.count(2, C::kFlitsPassed), GetParam().from_ring_to_ring ? 3 * flits : 0);
  for (const C counter : {C::kFlitsOut, C::kFlitsPassed, C::kCellsOut})
    EXPECT_EQ(fabric.count(1, counter), 0U);
  for (const C counter : {C::kFlitsIn, C::kCellsIn}) EXPECT_EQ(fabric.count(2, counter), 0U);
}

/// A frozen node has given no credit back, so its cells wait in the switch.
TEST_P(SwitchCounts, a_flit_that_waited_has_not_gone_from_ring_to_ring) {
  TestFabricConfig small = config();
  small.switching.link.credits_per_lane = 8;
  TestFabric fabric(small);
  fabric.freeze(1, true);
  const TestCell cell{.dlid = Lid(2), .payload_bytes = 200};
  uint32_t sent = 0;
  for (int i = 0; i < 12; ++i) {
    if (fabric.send(0, cell)) ++sent;
    fabric.run(20);
  }
  const uint64_t passed = fabric.count(2, C::kFlitsPassed);
  EXPECT_LE(passed, 8U) << "the credit of the node";
  fabric.freeze(1, false);
  fabric.run(2000);
  EXPECT_EQ(fabric.received[1].size(), sent);
  EXPECT_EQ(fabric.count(2, C::kFlitsOut), fabric.count(1, C::kFlitsIn));
  EXPECT_LT(fabric.count(2, C::kFlitsPassed), fabric.count(2, C::kFlitsOut));
}

}  // namespace
}  // namespace weft::test
