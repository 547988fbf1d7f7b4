// Numbers of packets of before the capture began, and how many packets are kept.
#include "tools/capture/psn_map.h"

#include <gtest/gtest.h>

namespace weft::tools {
namespace {

constexpr uint32_t kKept = PsnMap::kPacketsMax;

TEST(PsnMap, as_many_packets_of_before_the_capture_are_numbered_as_there_is_room_for) {
  for (const Psn begin : {Psn(5000), Psn(3)}) {  // the second: numbers wrap
    PsnMap map;
    map.open(begin).frames = 1;
    const Psn first = begin.plus(Psn::kMask + 1 - (kKept - 1));
    map.open(first).bytes = 77;
    ASSERT_NE(map.find(begin), nullptr) << "the packet that was known stays so";
    EXPECT_EQ(map.find(begin)->first, begin.value());
    ASSERT_NE(map.find(first), nullptr);
    EXPECT_EQ(map.find(first)->bytes, 77U);
    EXPECT_EQ(map.find(first)->first, begin.value() - (kKept - 1));
  }
}

TEST(PsnMap, a_packet_that_is_one_too_far_before_the_others_begins_anew) {
  PsnMap map;
  map.open(Psn(5000));
  EXPECT_EQ(map.open(Psn(5000 - kKept)).first, 5000 - kKept);
  EXPECT_EQ(map.find(Psn(5000)), nullptr);
}

/// The last that is near enough, and the first that is not.
TEST(PsnMap, packets_ahead_push_out_the_oldest_or_begin_anew) {
  PsnMap map;
  map.open(Psn(100)).ended = true;
  map.open(Psn(100 + kKept));
  EXPECT_EQ(map.find(Psn(100)), nullptr);
  ASSERT_NE(map.find(Psn(101)), nullptr) << "exactly as many as are kept";
  EXPECT_EQ(map.find(Psn(101))->first, 100U) << "the one before it had no frame";
  EXPECT_NE(map.find(Psn(100 + kKept)), nullptr);
  map.open(Psn(101 + 2 * kKept));
  EXPECT_EQ(map.find(Psn(100 + kKept)), nullptr);
  EXPECT_EQ(map.find(Psn(101 + 2 * kKept))->first, 101 + 2 * kKept);
}

}  // namespace
}  // namespace weft::tools
