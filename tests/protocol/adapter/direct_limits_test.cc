// Limits of RC over a memory window: how often a receiver that is not ready is asked again, and how many
// records a turn takes.
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

class DirectTurns : public ::testing::Test {
 protected:
  void write(uint64_t wr_id, uint32_t bytes) {
    ASSERT_EQ(pair.post_send(0, *qps[0],
                             {.wr_id = wr_id,
                              .opcode = SendOpcode::kRdmaWrite,
                              .remote_addr = pair.side(1).region.addr,
                              .rkey = pair.side(1).region.rkey},
                             {pair.side(0).sge(0, bytes)}),
              PostResult::kOk);
  }
  /// Posts writes that the device moves: a first one makes the owner show its key.
  void post_writes(uint64_t count, uint32_t bytes) {
    write(0, 64);
    pair.run();
    ASSERT_EQ(pair.take_completions(0).size(), 1U);
    for (uint64_t i = 1; i <= count; ++i) write(i, bytes);
  }

  DirectPair pair{{.own = {.slots = 16, .slot_bytes = 256, .table_entries = 16}, .requests = 128}};
  std::array<QueuePair*, 2> qps = pair.connect({});
};

/// The copies are part of the turn, and other threads of the program wait for its lock.
TEST_F(DirectTurns, move_about_a_mebibyte_of_a_queue_pair) {
  constexpr uint32_t kBytes = 64 * 1024;
  constexpr uint64_t kWrites = 60;
  post_writes(kWrites, kBytes);
  for (uint64_t left = kWrites; left != 0;) {
    pair.run_one(0);
    const uint64_t moved = pair.take_completions(0).size();
    ASSERT_EQ(moved, std::min<uint64_t>(left, 1024 * 1024 / kBytes));
    left -= moved;
    if (left != 0) {
      ASSERT_LE(pair.side(0).adapter->deadline(), pair.clock.now()) << "the rest is due at once";
    }
  }
}

/// Each write is several accesses, and crosses the bound.
TEST_F(DirectTurns, end_amid_a_long_write) {
  constexpr uint32_t kBytes = 900 * 1024;
  post_writes(3, kBytes);
  pair.run_one(0);
  EXPECT_EQ(pair.take_completions(0).size(), 1U) << "the second write is not whole";
  pair.run();
  EXPECT_EQ(pair.take_completions(0).size(), 2U);
}

/// The records are for queue pairs that have ended, so that the receiver owes nothing for them.
TEST(DirectLimits, an_adapter_that_left_records_in_its_window_is_due_at_once) {
  constexpr uint64_t kPerTurn = 64;
  constexpr uint64_t kSends = 16;  // of each queue pair
  DirectPair pair({.own = {.slots = 256, .slot_bytes = 256, .table_entries = 16}, .requests = 256});
  const auto stays = pair.connect({});
  std::array<std::array<QueuePair*, 2>, 5> ended;
  for (auto& ends : ended) ends = pair.connect({});
  pair.run();
  ChannelAdapter& receiver = *pair.side(1).adapter;
  ASSERT_GT(receiver.deadline(), pair.clock.now()) << "a window at rest";
  for (const auto& ends : ended) {
    for (uint64_t i = 0; i < kSends; ++i)
      ASSERT_EQ(pair.post_send(0, *ends[0], {.wr_id = i}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  }
  for (int turn = 0; turn < 8; ++turn) pair.run_one(0);
  for (const auto& ends : ended) ASSERT_TRUE(receiver.destroy_qp(ends[1]).ok());
  const auto dropped = [&] { return receiver.counters().get(AdapterCounter::kDropNoQp); };
  pair.run_one(1);
  ASSERT_EQ(dropped(), kPerTurn);
  EXPECT_LE(receiver.deadline(), pair.clock.now());
  pair.run_one(1);
  EXPECT_EQ(dropped(), ended.size() * kSends);
  EXPECT_GT(receiver.deadline(), pair.clock.now());
  EXPECT_EQ(receiver.query_qp(*stays[1]).state, QpState::kRts);
}

}  // namespace
}  // namespace weft::test
