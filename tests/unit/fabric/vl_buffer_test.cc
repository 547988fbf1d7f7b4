// The flit buffers of one lane: who waits for which output, what is counted, and what a dropped cell leaves.
#include "fabric/switch/vl_buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::fabric {
namespace {

constexpr uint32_t kFlitBytes = 100;  // not a whole number of cache lines

class VlBufferTest : public ::testing::Test {
 protected:
  /// A flit of `kFlitBytes` times `mark`.
  [[nodiscard]] bool push(uint32_t output, uint8_t mark, bool head, bool tail) {
    std::array<std::byte, kFlitBytes> bytes;
    bytes.fill(std::byte{mark});
    const RxFlit flit{.head = head, .tail = tail, .payload = bytes};
    return buffer.push(output, {.flit = flit});
  }
  /// A cell of several flits; the last one is missing unless it is `whole`.
  void push_cell(uint32_t output, uint8_t mark, int flits, bool whole = true) {
    for (int i = 0; i < flits; ++i)
      ASSERT_TRUE(push(output, static_cast<uint8_t>(mark + i), i == 0, whole && i + 1 == flits));
  }
  /// The oldest flit is that one, whole, and goes.
  void expect_next(uint32_t output, uint8_t mark) {
    ASSERT_NE(buffer.flits(output), 0U);
    const QueuedFlit flit = buffer.front(output);
    ASSERT_EQ(flit.payload.size(), kFlitBytes);
    for (const std::byte byte : flit.payload) ASSERT_EQ(byte, std::byte{mark});
    buffer.pop(output);
  }

  void expect_cell(uint32_t output, uint8_t mark, int flits) {
    for (int i = 0; i < flits; ++i) expect_next(output, static_cast<uint8_t>(mark + i));
  }

  VlBuffer buffer{8, kFlitBytes, 2};
};

TEST_F(VlBufferTest, outputs_have_queues_of_their_own_and_the_buffers_in_common) {
  push_cell(0, 10, 3);
  push_cell(1, 20, 2);
  push_cell(0, 30, 3);
  EXPECT_EQ(buffer.free_flits(), 0U);
  EXPECT_FALSE(push(1, 40, true, true));
  EXPECT_EQ(buffer.flits(0), 6U);
  EXPECT_EQ(buffer.flits(1), 2U);
  EXPECT_EQ(buffer.whole_cells(0), 2U);
  EXPECT_EQ(buffer.heads(0), 2U);
  expect_next(1, 20);
  EXPECT_EQ(buffer.heads(1), 0U);
  EXPECT_EQ(buffer.whole_cells(1), 1U) << "its tail is still here";
  expect_cell(0, 10, 3);
  EXPECT_EQ(buffer.whole_cells(0), 1U);
  EXPECT_EQ(buffer.free_flits(), 4U);
  expect_next(1, 21);
  expect_cell(0, 30, 3);
  EXPECT_EQ(buffer.whole_cells(0) + buffer.whole_cells(1), 0U);
  EXPECT_EQ(buffer.free_flits(), buffer.capacity());
}

TEST_F(VlBufferTest, what_is_dropped_is_counted_in_flits_and_in_cells) {
  push_cell(0, 10, 3);
  push_cell(0, 20, 2, false);
  push_cell(1, 30, 1);
  uint32_t heads = 0;
  EXPECT_EQ(buffer.clear(0, heads), 5U);
  EXPECT_EQ(heads, 2U);
  EXPECT_EQ(buffer.flits(0), 0U);
  EXPECT_EQ(buffer.heads(0), 0U);
  EXPECT_EQ(buffer.free_flits(), 7U);
  expect_next(1, 30);
  push_cell(0, 40, 2);
  expect_next(0, 40);
}

TEST_F(VlBufferTest, a_cell_whose_rest_does_not_come_goes_alone) {
  push_cell(0, 10, 2);
  push_cell(0, 20, 2);
  push_cell(0, 30, 2, false);
  bool head = false;
  EXPECT_EQ(buffer.drop_unfinished(0, head), 2U);
  EXPECT_TRUE(head);
  EXPECT_EQ(buffer.flits(0), 4U);
  EXPECT_EQ(buffer.heads(0), 2U);
  EXPECT_EQ(buffer.whole_cells(0), 2U);
  EXPECT_EQ(buffer.drop_unfinished(0, head), 0U);
  EXPECT_FALSE(head);
  push_cell(0, 40, 1);
  expect_cell(0, 10, 2);
  expect_cell(0, 20, 2);
  expect_next(0, 40);
}

TEST_F(VlBufferTest, the_rest_of_a_cell_that_has_begun_to_leave_is_no_further_one) {
  push_cell(0, 10, 3, false);
  expect_next(0, 10);
  bool head = true;
  EXPECT_EQ(buffer.drop_unfinished(0, head), 2U);
  EXPECT_FALSE(head) << "it has left";
  EXPECT_EQ(buffer.heads(0), 0U);
  EXPECT_EQ(buffer.free_flits(), buffer.capacity());
  push_cell(0, 20, 1);
  expect_next(0, 20);
}

}  // namespace
}  // namespace weft::fabric
