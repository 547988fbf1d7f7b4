#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <new>
#include <regex>
#include <string_view>

#include "tests/support/allocation_counter.h"

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

/// Turns of cores log, and must not throw.
TEST(Log, without_memory_the_format_of_a_line_is_written) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const int error = dup(STDERR_FILENO);
  dup2(pipe_ends[1], STDERR_FILENO);
  test::watch_allocations([](uint64_t) { throw std::bad_alloc(); });
  log(LogLevel::kError, "a text of more than {} characters", 15);
  test::watch_allocations(nullptr);
  dup2(error, STDERR_FILENO);
  std::array<char, 256> line{};
  const ssize_t bytes = read(pipe_ends[0], line.data(), line.size());
  for (const int fd : {error, pipe_ends[0], pipe_ends[1]}) close(fd);
  EXPECT_EQ(std::string_view(line.data(), static_cast<size_t>(bytes)), "a text of more than {} characters\n");
}

}  // namespace
}  // namespace weft
