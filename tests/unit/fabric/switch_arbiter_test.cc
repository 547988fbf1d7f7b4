// The arbitration tables through a whole switch: what leaves an output, in which order.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kCredits = 32;
/// Makes a flit of 256 bytes, which is a weight of four.
constexpr uint32_t kPayloadBytes = 256 - kFlitHeaderBytes - kCellHeaderBytes - kCrcBytes;
constexpr uint8_t kCellWeight = 256 / kVlWeightBytes;

/// A switch with these tables at every output, in whose input buffers wait `kCredits` cells of every lane in
/// `lanes` for node 1, which is frozen until order() is asked for.
class Queued {
 public:
  Queued(const VlArbitration& tables, std::initializer_list<uint8_t> lanes) : fabric_(config(tables)) {
    fabric_.freeze(1, true);
    for (int turn = 0; turn < 100; ++turn) {
      for (const uint8_t lane : lanes) {
        static_cast<void>(fabric_.send(0, TestCell{.vl = VirtualLane(lane), .payload_bytes = kPayloadBytes}));
      }
      fabric_.step();
    }
    EXPECT_EQ(fabric_.fabric->cells_held(), lanes.size() * kCredits);
  }
  /// The lanes of what leaves once the node gives all credit back, in the order it leaves.
  std::vector<uint8_t> order() {
    fabric_.freeze(1, false);
    fabric_.run(20);
    // First what was on the link already.
    auto& cells = fabric_.received[1];
    cells.erase(cells.begin(), cells.begin() + static_cast<ptrdiff_t>(cells.size() / 2));
    std::vector<uint8_t> lanes;
    for (const auto& cell : cells) lanes.push_back(CellHead(cell.data()).vl().value());
    EXPECT_EQ(fabric_.drops(), 0U);
    return lanes;
  }

 private:
  static TestFabricConfig config(const VlArbitration& tables) {
    TestFabricConfig out;
    out.switching = small_switch(0, kCredits);
    out.switching.arbitration = tables;
    return out;
  }
  TestFabric fabric_;
};

uint32_t share(std::span<const uint8_t> lanes, uint8_t lane) {
  return static_cast<uint32_t>(std::count(lanes.begin(), lanes.end(), lane));
}

/// Every lane of small_switch(), in the low table unless it stands in the high one.
VlArbitration with_high(std::vector<VlWeight> high, uint8_t limit) {
  VlArbitration tables;
  tables.high = std::move(high);
  tables.high_limit = limit;
  for (uint8_t lane = 0; lane < kDataLanesDefault; ++lane) {
    const bool is_high = std::any_of(tables.high.begin(), tables.high.end(),
                                     [lane](const VlWeight& entry) { return entry.vl.value() == lane; });
    if (!is_high) tables.low.push_back({VirtualLane(lane), 4 * kCellWeight});
  }
  return tables;
}

TEST(SwitchArbiter, lanes_leave_an_output_by_their_weights) {
  VlArbitration tables;
  tables.low = {{VirtualLane(0), kCellWeight},
                {VirtualLane(1), 3 * kCellWeight},
                {VirtualLane(2), kCellWeight},
                {VirtualLane(3), kCellWeight}};
  Queued queued(tables, {0, 1});
  const std::vector<uint8_t> order = queued.order();
  ASSERT_EQ(order.size(), 2 * kCredits);
  const auto contended = std::span(order).first(40);  // later only lane 0 has something left
  EXPECT_NEAR(share(contended, 0), 10, 1);
  EXPECT_NEAR(share(contended, 1), 30, 1);
}

TEST(SwitchArbiter, equal_weights_take_turns) {
  Queued queued(with_high({}, kVlHighLimitNone), {0, 3});
  const std::vector<uint8_t> order = queued.order();
  ASSERT_EQ(order.size(), 2 * kCredits);
  for (size_t from = 0; from + 16 <= order.size(); from += 16) {
    EXPECT_NEAR(share(std::span(order).subspan(from, 16), 0), 8, 4) << from;
  }
}

TEST(SwitchArbiter, without_a_limit_high_starves_low) {
  Queued queued(with_high({{VirtualLane(2), 4 * kCellWeight}}, kVlHighLimitNone), {0, 2});
  const std::vector<uint8_t> order = queued.order();
  ASSERT_EQ(order.size(), 2 * kCredits);
  EXPECT_EQ(share(std::span(order).first(kCredits), 2), kCredits) << "all of it before any low cell";
}

TEST(SwitchArbiter, with_a_limit_a_low_cell_goes_after_so_much_of_high) {
  Queued queued(with_high({{VirtualLane(2), 4 * kCellWeight}}, 1), {0, 2});
  const std::vector<uint8_t> order = queued.order();
  ASSERT_EQ(order.size(), 2 * kCredits);
  // 4096 bytes of high ones are 16 cells, in turns of the weight; then one low cell, then high again.
  const auto first = std::span(order).first(kCredits);
  EXPECT_GE(share(first, 0), 1U);
  EXPECT_LE(share(first, 0), 3U);
  for (size_t i = 0; i + 1 < first.size(); ++i) {
    EXPECT_FALSE(first[i] == 0 && first[i + 1] == 0) << "one low cell at a time, at " << i;
  }
}

}  // namespace
}  // namespace weft::test
