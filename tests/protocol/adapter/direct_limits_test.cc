// Limits of RC over a memory window: how often a receiver that is not ready is asked again, and what follows
// a turn that took as many records as it may.
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

/// Nothing else wakes the process for the records that are left: their head stood there before.
TEST(DirectLimits, a_turn_that_left_records_is_followed_by_another_at_once) {
  constexpr uint32_t kMessages = 100;
  DirectPair pair({.own = {.slots = 128, .slot_bytes = 256, .table_entries = 16}, .requests = 256});
  const auto qps = pair.connect({.send_wqes = 128, .recv_wqes = 128});
  pair.run(20);
  for (uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 8)}), PostResult::kOk);
    ASSERT_EQ(pair.post_send(0, *qps[0], {.wr_id = i}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  }
  for (int turn = 0; turn < 20; ++turn) static_cast<void>(pair.side(0).adapter->poll(pair.clock.now()));
  static_cast<void>(pair.side(1).adapter->poll(pair.clock.now()));
  EXPECT_EQ(pair.side(1).adapter->deadline(), Instant::min());
  pair.run(20);
  EXPECT_EQ(pair.take_completions(1).size(), kMessages);
}

}  // namespace
}  // namespace weft::test
