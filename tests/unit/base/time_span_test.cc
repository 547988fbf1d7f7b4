// Lengths of time that people write.
#include "base/time_span.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(TimeSpan, times_need_a_unit_and_are_read_whole) {
  EXPECT_EQ(parse_time_span("250us"), Duration(250us));
  EXPECT_EQ(parse_time_span("1.5s"), Duration(1500ms));
  EXPECT_EQ(parse_time_span("2m"), Duration(2min));
  EXPECT_EQ(parse_time_span("4.22s"), Duration(4220ms)) << "no nanosecond less";
  for (const char* wrong : {"", "5", "s", "-1s", "5sek", "1 2s", "1e30s", "nans"})
    EXPECT_FALSE(parse_time_span(wrong)) << wrong;
  EXPECT_EQ(format_time_span(1500us), "1.5ms");
}

/// As tc and other tools have them.
TEST(TimeSpan, times_may_have_a_space_and_longer_units) {
  EXPECT_EQ(parse_time_span("20 ms"), Duration(20ms));
  EXPECT_EQ(parse_time_span("5sec"), Duration(5s));
  EXPECT_EQ(parse_time_span("100msec"), Duration(100ms));
  EXPECT_EQ(parse_time_span("10 usecs"), Duration(10us));
  EXPECT_EQ(parse_time_span("3min"), Duration(3min));
}

}  // namespace
}  // namespace weft
