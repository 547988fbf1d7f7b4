// What a connection keeps of its throughput where cells are lost, over a link of 2 us, in virtual time: the
// same figures on every machine.
#include "sim/goodput.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weft::sim {
namespace {

struct Case {
  uint32_t loss_ppm;
  uint32_t message_bytes;
  double least;  // of what it is without loss
};

class GoodputUnderLoss : public ::testing::TestWithParam<Case> {};

TEST_P(GoodputUnderLoss, loss_leaves_most_of_it) {
  const Case wanted = GetParam();
  GoodputRun run{.message_bytes = wanted.message_bytes, .bytes = 8 << 20};
  const double without = measure_goodput(run).bytes_per_second;
  ASSERT_GT(without, 0.0);
  double sum = 0;
  for (run.seed = 1; run.seed <= 3; ++run.seed) {
    run.loss_ppm = wanted.loss_ppm;
    sum += measure_goodput(run).bytes_per_second / 3;
  }
  EXPECT_GE(sum / without, wanted.least);
}

INSTANTIATE_TEST_SUITE_P(links, GoodputUnderLoss,
                         ::testing::Values(Case{10'000, 64 * 1024, 0.9}, Case{300'000, 64 * 1024, 0.4},
                                           Case{10'000, 4096, 0.9}, Case{300'000, 4096, 0.25}));

TEST(GoodputFigure, the_same_seed_gives_the_same_figure) {
  const GoodputRun run{.loss_ppm = 50'000, .bytes = 2 << 20};
  EXPECT_EQ(measure_goodput(run).bytes_per_second, measure_goodput(run).bytes_per_second);
}

}  // namespace
}  // namespace weft::sim
