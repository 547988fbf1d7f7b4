// What an adapter counts of the cells that pass its port: their number and their bytes, as they stood on the
// wire, and apart from them what went from one of its QPs to another.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

class PortBytes : public ::testing::Test {
 protected:
  [[nodiscard]] uint64_t count(int side, AdapterPortCounter counter) {
    return pair.side(side).adapter->ports().total(counter);
  }
  /// Bytes and number of what a side has put on the wire.
  [[nodiscard]] std::pair<uint64_t, uint64_t> wire(int from) const {
    uint64_t bytes = 0;
    const std::vector<const TracedCell*> sent = pair.pipe.sent_by(from);
    for (const TracedCell* cell : sent) bytes += cell->bytes.size();
    return {bytes, sent.size()};
  }
  void send(QueuePair& qp, uint32_t bytes) {
    const Sge sge = pair.side(0).sge(0, bytes);
    ASSERT_EQ(pair.side(0).adapter->post_send(qp, {.wr_id = 9, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(5);
  }

  AdapterPair pair;
};

TEST_F(PortBytes, are_those_on_the_wire_in_both_directions) {
  auto [a, b] = pair.connect({});
  for (const uint32_t bytes : {0U, 1U, 256U, 1000U, 4096U}) {
    ASSERT_EQ(pair.post_recv(1, *b, 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
    send(*a, bytes);
  }
  for (const int side : {0, 1}) {
    const auto [bytes, cells] = wire(side);
    EXPECT_GT(cells, 0U);
    EXPECT_EQ(count(side, AdapterPortCounter::kCellsSent), cells);
    EXPECT_EQ(count(side, AdapterPortCounter::kBytesSent), bytes);
    EXPECT_EQ(count(1 - side, AdapterPortCounter::kCellsReceived), cells);
    EXPECT_EQ(count(1 - side, AdapterPortCounter::kBytesReceived), bytes);
    EXPECT_EQ(count(side, AdapterPortCounter::kBytesLooped), 0U);
  }
}

TEST_F(PortBytes, of_a_cell_that_found_no_room_are_not_counted) {
  auto [a, b] = pair.connect({});
  ASSERT_EQ(pair.post_recv(1, *b, 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  pair.pipe.set_room(0, 2);
  send(*a, 1000);
  EXPECT_EQ(count(0, AdapterPortCounter::kBytesSent), wire(0).first);
  EXPECT_EQ(wire(0).second, 2U);
}

TEST_F(PortBytes, between_two_qps_of_one_adapter_are_told_apart) {
  const auto own = pair.connect({}, {}, 0, 0);
  ASSERT_EQ(pair.post_recv(0, *own[1], 7, {pair.side(0).sge(8192, 4096)}), PostResult::kOk);
  send(*own[0], 1000);
  EXPECT_EQ(wire(0).second, 0U);
  const uint64_t looped = count(0, AdapterPortCounter::kBytesLooped);
  EXPECT_GT(looped, 1000U);
  EXPECT_EQ(count(0, AdapterPortCounter::kBytesSent), looped);
  EXPECT_EQ(count(0, AdapterPortCounter::kBytesReceived), looped);
  EXPECT_EQ(count(0, AdapterPortCounter::kCellsSent), count(0, AdapterPortCounter::kCellsLooped));
}

}  // namespace
}  // namespace weft::test
