// Percentiles of durations that were counted in buckets.
#include "base/latency_histogram.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(LatencyHistogram, percentiles_are_within_a_bucket) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile_ns(500), 0u);
  for (uint64_t i = 1; i <= 10000; ++i) histogram.add(i * 100);
  EXPECT_NEAR(static_cast<double>(histogram.percentile_ns(500)), 500'000.0, 500'000.0 * 0.04);
  EXPECT_NEAR(static_cast<double>(histogram.percentile_ns(990)), 990'000.0, 990'000.0 * 0.04);
  EXPECT_EQ(histogram.max_ns(), 1'000'000u);
  EXPECT_EQ(histogram.min_ns(), 100u);
  EXPECT_LE(histogram.percentile_ns(1000), histogram.max_ns());
}

/// Values below 32 have a bucket each.
TEST(LatencyHistogram, a_percentile_is_the_least_value_that_so_many_do_not_exceed) {
  LatencyHistogram histogram;
  for (uint64_t ns = 1; ns <= 3; ++ns) histogram.add(ns);
  EXPECT_EQ(histogram.percentile_ns(1), 1U);
  EXPECT_EQ(histogram.percentile_ns(333), 1U);
  EXPECT_EQ(histogram.percentile_ns(334), 2U);
  EXPECT_EQ(histogram.percentile_ns(500), 2U);
  EXPECT_EQ(histogram.percentile_ns(667), 3U);
  EXPECT_EQ(histogram.percentile_ns(1000), 3U);
  histogram.clear();
  EXPECT_EQ(histogram.percentile_ns(1000), 0U);
  EXPECT_EQ(histogram.min_ns(), 0U) << "of nothing";
}

}  // namespace
}  // namespace weft
