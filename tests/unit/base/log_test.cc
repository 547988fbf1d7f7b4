#include "base/log.h"

#include <gtest/gtest.h>

#include <regex>

namespace weft {
namespace {

TEST(Log, a_line_has_seconds_for_machines_and_the_time_of_day_for_people) {
  log_setup("who", LogLevel::kInfo);
  EXPECT_TRUE(std::regex_match(log_line(LogLevel::kWarn, "text"),
                               std::regex(R"(\d{10}\.\d{6} warn who\[\d+\]: text\n)")));
  log_setup("who", LogLevel::kInfo, LogTime::kOfDay);
  EXPECT_TRUE(
      std::regex_match(log_line(LogLevel::kWarn, "text"),
                       std::regex(R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6} warn who\[\d+\]: text\n)")));
  log_setup("test", LogLevel::kInfo);
}

}  // namespace
}  // namespace weft
