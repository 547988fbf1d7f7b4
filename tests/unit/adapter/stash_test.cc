// The stash by itself: its bounds for all QPs and for each, and what comes back when cells are taken.
#include "adapter/transport/stash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kCells = 5;
constexpr uint32_t kCellsPerQp = 3;

class StashTest : public ::testing::Test {
 protected:
  bool keep(ReceiveSide& rx, uint32_t psn, uint16_t number = 0, uint32_t bytes = 8) {
    CellView cell;
    cell.psn = Psn(psn);
    cell.cell_number = number;
    cell.payload = std::span(payload_).first(bytes);
    return stash_.keep(rx, cell);
  }
  /// Numbers of the cells of a packet, as they are taken.
  std::vector<uint16_t> take(ReceiveSide& rx, uint32_t psn) {
    std::vector<uint16_t> out;
    while (const uint32_t index = stash_.take(rx, Psn(psn))) out.push_back(stash_.at(index).number);
    return out;
  }

  Stash stash_{kCells, kCellsPerQp};
  ReceiveSide a_;
  ReceiveSide b_;
  std::array<std::byte, kCellPayloadBytesMax + 1> payload_{};
};

TEST_F(StashTest, a_qp_has_as_many_cells_as_the_limit_says_and_no_more) {
  for (int life = 0; life < 3; ++life) {
    for (uint32_t i = 0; i < kCellsPerQp; ++i) EXPECT_TRUE(keep(a_, 7, static_cast<uint16_t>(i))) << i;
    EXPECT_FALSE(keep(a_, 7));
    EXPECT_EQ(stash_.used(), kCellsPerQp);
    EXPECT_EQ(take(a_, 7).size(), kCellsPerQp);
    EXPECT_EQ(stash_.used(), 0U);
  }
}

TEST_F(StashTest, what_one_qp_gives_back_serves_another) {
  for (int life = 0; life < 3; ++life) {
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(keep(a_, 1));
    for (uint32_t i = 0; i < 2; ++i) EXPECT_TRUE(keep(b_, 2));
    EXPECT_FALSE(keep(b_, 2)) << "all cells are used, though not all of this QP";
    EXPECT_EQ(stash_.used(), kCells);
    EXPECT_NE(stash_.take(a_, Psn(1)), 0U);
    EXPECT_EQ(stash_.used(), kCells - 1);
    EXPECT_TRUE(keep(b_, 2));
    EXPECT_FALSE(keep(a_, 1));
    stash_.drop_all(a_);
    stash_.drop_all(b_);
    EXPECT_EQ(stash_.used(), 0U);
  }
}

TEST_F(StashTest, cells_of_a_packet_are_taken_wherever_they_stand_in_the_list) {
  for (const uint32_t wanted : {1U, 2U, 3U}) {
    for (const uint32_t psn : {1U, 2U, 3U}) ASSERT_TRUE(keep(a_, psn, static_cast<uint16_t>(10 * psn)));
    EXPECT_EQ(take(a_, wanted), (std::vector<uint16_t>{static_cast<uint16_t>(10 * wanted)}));
    EXPECT_TRUE(take(a_, wanted).empty());
    EXPECT_EQ(stash_.used(), 2U);
    stash_.drop_all(a_);
  }
}

TEST_F(StashTest, a_payload_is_copied_up_to_the_largest_and_none_beyond) {
  payload_[0] = std::byte{1};
  payload_[kCellPayloadBytesMax - 1] = std::byte{2};
  ASSERT_TRUE(keep(a_, 1, 4, kCellPayloadBytesMax));
  EXPECT_FALSE(keep(a_, 1, 5, kCellPayloadBytesMax + 1));
  ASSERT_TRUE(keep(a_, 2, 6, 0));
  payload_[0] = std::byte{9};
  const uint32_t index = stash_.take(a_, Psn(1));
  ASSERT_NE(index, 0U);
  ASSERT_EQ(stash_.payload(index).size(), kCellPayloadBytesMax);
  EXPECT_EQ(stash_.payload(index).front(), std::byte{1});
  EXPECT_EQ(stash_.payload(index).back(), std::byte{2});
  EXPECT_TRUE(stash_.payload(stash_.take(a_, Psn(2))).empty());
}

}  // namespace
}  // namespace weft::test
