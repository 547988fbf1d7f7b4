#include <gtest/gtest.h>

#include "session/session_channels.h"

namespace weft::session {
namespace {

using adapter::QpCounter;

/// A queue pair that ends takes none of its counts along, and they are not added twice.
TEST(ChannelTotals, of_several_lives_are_the_sum) {
  ChannelTotals totals;
  CounterSet<QpCounter> now;
  const auto counter = static_cast<QpCounter>(0);
  const auto other = static_cast<QpCounter>(1);
  now.set(counter, 5);
  totals.add_up(0, now, false);
  totals.add_up(0, now, false);
  EXPECT_EQ(totals.of(0).get(counter), 5U);
  now.set(counter, 6);
  totals.add_up(0, now, true);
  EXPECT_EQ(totals.of(0).get(counter), 6U);
  for (const uint64_t second : {1U, 3U}) {
    now.set(counter, second);
    totals.add_up(0, now, false);
    EXPECT_EQ(totals.of(0).get(counter), 6 + second) << "while the next one lives";
  }
  totals.add_up(0, now, true);
  now.set(counter, 2);
  totals.add_up(0, now, true);
  EXPECT_EQ(totals.of(0).get(counter), 11U);
  EXPECT_EQ(totals.of(0).get(other), 0U);
  EXPECT_EQ(totals.of(1).get(counter), 0U) << "each channel for itself";
}

}  // namespace
}  // namespace weft::session
