// The log of asynchronous events: which have a line, and how many lines a second may have.
#include "adapter/event_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace weft::adapter {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What the log says of `events` lost paths within one second, and of one more in the next.
std::string said_of(uint32_t events, AsyncEventKind kind = AsyncEventKind::kPathMigError) {
  EventLog log("hca");
  ::testing::internal::CaptureStderr();
  const AsyncEvent event{.kind = kind, .qpn = Qpn(7)};
  for (uint32_t i = 0; i < events; ++i) log.write(event, Instant(1s));
  log.write(event, Instant(2s));
  return ::testing::internal::GetCapturedStderr();
}

size_t lines_in(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(EventLogTest, a_second_has_its_number_of_lines_and_the_rest_are_counted) {
  constexpr uint32_t kMost = EventLog::kLinesPerSecond;
  const std::string all = said_of(kMost);
  EXPECT_EQ(lines_in(all), kMost + 1);
  EXPECT_THAT(all, Not(HasSubstr("more events")));
  const std::string one_more = said_of(kMost + 1);
  EXPECT_EQ(lines_in(one_more), kMost + 2);
  EXPECT_THAT(one_more, HasSubstr("hca: 1 more events of the same second"));
}

TEST(EventLogTest, what_is_routine_has_no_line) {
  for (const AsyncEventKind kind : {AsyncEventKind::kSqDrained, AsyncEventKind::kSrqLimit,
                                    AsyncEventKind::kLastWqeReached, AsyncEventKind::kCommEstablished})
    EXPECT_EQ(said_of(2, kind), "") << to_string(kind);
}

}  // namespace
}  // namespace weft::adapter
