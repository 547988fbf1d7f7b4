// What is kept of cells while the program that people want to see has not started.
#include "tools/capture/recent_cells.h"

#include <gtest/gtest.h>

#include "tests/support/test_cells.h"

namespace weft::tools {
namespace {

CapturedFrame cell(uint64_t time_ns, uint32_t port, FrameDirection direction, uint16_t from, uint16_t to) {
  CapturedFrame out;
  out.time_ns = time_ns;
  out.port = port;
  out.direction = direction;
  out.data = test::make_cell({.dlid = Lid(to), .slid = Lid(from), .number = static_cast<uint32_t>(time_ns)});
  return out;
}

std::vector<uint64_t> times(const std::vector<CapturedFrame>& cells) {
  std::vector<uint64_t> out;
  for (const CapturedFrame& each : cells) out.push_back(each.time_ns);
  return out;
}

TEST(RecentCells, those_of_a_lid_at_its_port_and_of_groups_come_back) {
  RecentCells recent;
  recent.add(cell(1, 4, FrameDirection::kOut, 9, 2));  // of the one that had the port before
  recent.add(cell(2, 4, FrameDirection::kOut, 7, 2));
  recent.add(cell(3, 5, FrameDirection::kOut, 7, 2));  // of another port
  recent.add(cell(4, 4, FrameDirection::kIn, 2, 7));
  recent.add(cell(5, 4, FrameDirection::kIn, 2, 9));
  recent.add(cell(6, 4, FrameDirection::kIn, 2, 0xC123));
  CapturedFrame cut = cell(7, 4, FrameDirection::kOut, 7, 2);
  cut.data.resize(5);
  recent.add(cut);
  EXPECT_EQ(times(recent.take(4, Lid(7))), (std::vector<uint64_t>{2, 4, 6}));
  EXPECT_TRUE(recent.take(4, Lid(7)).empty()) << "once";
}

TEST(RecentCells, only_the_last_moments_are_kept) {
  RecentCells recent;
  recent.add(cell(1, 0, FrameDirection::kOut, 1, 2));
  recent.add(cell(2, 0, FrameDirection::kOut, 1, 2));
  recent.add(cell(2 + RecentCells::kKeptNs, 0, FrameDirection::kOut, 1, 2));
  EXPECT_EQ(times(recent.take(0, Lid(1))), (std::vector<uint64_t>{2, 2 + RecentCells::kKeptNs}));
}

TEST(RecentCells, memory_is_bounded) {
  RecentCells recent;
  CapturedFrame big = cell(1, 0, FrameDirection::kOut, 1, 2);
  big.data.resize(RecentCells::kKeptBytesMax / 4);
  for (uint64_t i = 1; i <= 10; ++i) {
    big.time_ns = i;
    recent.add(big);
  }
  EXPECT_EQ(times(recent.take(0, Lid(1))), (std::vector<uint64_t>{7, 8, 9, 10}));
  // What was taken has left its room.
  for (uint64_t i = 11; i <= 14; ++i) {
    big.time_ns = i;
    recent.add(big);
  }
  EXPECT_EQ(times(recent.take(0, Lid(1))), (std::vector<uint64_t>{11, 12, 13, 14}));
}

}  // namespace
}  // namespace weft::tools
