// The choice of the driving thread, tested by times alone.
#include "hca/progress_policy.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

TEST(DriveTest, callers_drive_until_they_pause) {
  hca::ProgressPolicy drive;
  const Instant start = Instant{} + 1s;
  EXPECT_TRUE(drive.helper_drives(start)) << "no caller has called yet";
  drive.caller_turned(start);
  EXPECT_FALSE(drive.helper_drives(start + 1ms));
  EXPECT_EQ(drive.look_again(), start + hca::kCallerPause);
  EXPECT_TRUE(drive.helper_drives(start + hca::kCallerPause));
}

TEST(DriveTest, a_caller_that_waits_leaves_the_driving_to_the_helper_until_it_polls_again) {
  hca::ProgressPolicy drive;
  const Instant now = Instant{} + 1s;
  drive.caller_turned(now);
  drive.caller_waits();
  for (uint32_t i = 0; i < hca::kPollsAfterArm; ++i) {
    drive.caller_turned(now);
    drive.caller_polled(now);
    EXPECT_TRUE(drive.helper_drives(now)) << "it looks at its queues once more";
  }
  for (uint32_t i = 0; i < 100; ++i) drive.caller_turned(now);
  EXPECT_TRUE(drive.helper_drives(now)) << "others post meanwhile";
  drive.caller_polled(now);
  EXPECT_FALSE(drive.helper_drives(now));
}

/// A program that waits by reading its memory and polls when its own queue is full.
TEST(DriveTest, the_helper_drives_beside_callers_that_leave_arrivals_to_it) {
  hca::ProgressPolicy drive;
  Instant now = Instant{} + 1s;
  drive.helper_found_work(now);
  drive.caller_turned(now);
  EXPECT_FALSE(drive.helper_drives(now)) << "work before the first call says nothing about the callers";
  now += hca::kCallerPause;
  drive.helper_found_work(now);
  for (int i = 0; i < 1000; ++i) {
    now += 60us;
    drive.caller_turned(now);  // a post
    if (i % 64 == 0) drive.caller_polled(now);
    ASSERT_TRUE(drive.helper_drives(now)) << i;
  }
  EXPECT_EQ(drive.rest(now, now + 1s), now + hca::kCallerPause) << "no post need kick it";
  EXPECT_EQ(drive.rest(now, now + 1ms), now + 1ms);
  EXPECT_EQ(drive.rest(now + hca::kCallerRest, now + 1s), now + 1s) << "the program does something else";
}

TEST(DriveTest, polls_without_a_gap_take_the_driving_back) {
  hca::ProgressPolicy drive;
  Instant now = Instant{} + 1s;
  drive.caller_turned(now);
  now += hca::kCallerPause;
  drive.helper_found_work(now);
  const auto poll_for = [&](Duration lasting) {
    for (const Instant end = now + lasting; now < end; now += 10us) {
      drive.caller_turned(now);
      drive.caller_polled(now);
    }
  };
  poll_for(hca::kPollRun - 100us);
  EXPECT_TRUE(drive.helper_drives(now));
  now += hca::kPollGap + 1us;
  poll_for(hca::kPollRun - 100us);
  EXPECT_TRUE(drive.helper_drives(now)) << "there was a gap";
  poll_for(200us);
  EXPECT_FALSE(drive.helper_drives(now));
}

TEST(DriveTest, a_caller_that_waits_for_an_event_leaves_nothing_alone) {
  hca::ProgressPolicy drive;
  const Instant now = Instant{} + 1s;
  drive.caller_turned(now);
  drive.caller_waits();
  drive.helper_found_work(now);
  for (uint32_t i = 0; i <= hca::kPollsAfterArm; ++i) drive.caller_polled(now);
  EXPECT_FALSE(drive.helper_drives(now));
}

}  // namespace
}  // namespace weft::test
