// Limits of RC over a memory window: how often a receiver that is not ready is asked again.
#include <gtest/gtest.h>

#include "tests/support/direct_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST(DirectLimits, a_receiver_that_is_not_ready_is_asked_again_as_often_as_the_queue_pair_says) {
  for (const uint8_t retries : {uint8_t{0}, uint8_t{1}, uint8_t{6}}) {
    DirectPair pair;
    QpAttr attr;
    attr.rnr_retry = retries;
    attr.min_rnr_timer = 100us;
    const auto qps = pair.connect({}, attr);
    ASSERT_EQ(pair.post_send(0, *qps[0], {.wr_id = 1}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
    pair.run(400);
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, WcStatus::kRnrRetryExceeded);
    EXPECT_EQ(pair.side(0).adapter->counters(*qps[0]).get(QpCounter::kRnrNaksReceived), retries + 1U);
  }
}

}  // namespace
}  // namespace weft::test
