// RC over a memory window when one side, or the window, ends.
#include <gtest/gtest.h>

#include "tests/support/direct_case.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST_F(Direct, a_peer_that_ends_its_queue_pair_costs_the_retries) {
  connect();
  ASSERT_TRUE(pair.side(1).adapter->modify_qp(*qps[1], {.state = QpState::kReset}, kQpAttrState) ==
              ModifyResult::kOk);
  pair.run(2);
  send(1, 0, 8);
  pair.run(2, 1ms);
  EXPECT_TRUE(pair.take_completions(0).empty());
  pair.run(50, 1ms);
  expect_given_up();
}

/// Programs probe a connection by them.
TEST_F(Direct, accesses_of_no_bytes_need_the_peer) {
  connect();
  pair.run(20);
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 0);
  post(remote(SendOpcode::kRdmaRead, 0), 0, 0);
  pair.run(20);
  const auto good = pair.take_completions(0);
  ASSERT_EQ(good.size(), 2U);
  EXPECT_EQ(good[1].status, WcStatus::kSuccess);
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead})
    post(remote(opcode, 0), 0, 0);
  pair.run(60, 1ms);
  const auto failed = pair.take_completions(0);
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(failed[1].status, WcStatus::kFlushed);
}

/// The peer's QP has said that it is ready, and ends before it has heard from ours.
TEST_F(Direct, a_peer_that_ends_before_it_hears_from_us_costs_the_retries) {
  connect();  // opens the window
  pair.run(20);
  const std::array<QueuePair*, 2> late{pair.make_qp(0, {}), pair.make_qp(1, {})};
  QpAttr attr;
  attr.ack_timeout = 10ms;
  attr.retry_count = 2;
  const Qpn own = pair.side(0).adapter->qpn(*late[0]);
  const Qpn peer = pair.side(1).adapter->qpn(*late[1]);
  pair.bring_up(0, *late[0], {}, peer, Lid(2), Psn(1), Psn(2), attr);
  pair.bring_up(1, *late[1], {}, own, Lid(1), Psn(2), Psn(1), attr);
  pair.run_one(1);
  pair.run_one(0);
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(late[1]));
  ASSERT_EQ(pair.post_send(0, *late[0], {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  pair.run(50, 1ms);
  expect_given_up();
}

TEST_F(Direct, a_peer_that_dies_fails_what_waits_for_it_at_once) {
  connect();
  pair.run(20);
  send(1, 0, 8);
  pair.window->kill(1);
  for (int i = 0; i < 5; ++i) pair.run_one(0);
  expect_given_up();
}

TEST_F(Direct, requests_without_a_peer_are_executed_after_the_window_has_ended) {
  connect();
  receive(7, 64, 64);
  send(3, 0, 64);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 1U);
  pair.window->kill(1);
  pair.run(20);
  delay(5);
  pair.run(200);
  const auto delayed = pair.take_completions(0);
  ASSERT_EQ(delayed.size(), 1U);
  EXPECT_EQ(delayed[0].wr_id, 5U);
  EXPECT_EQ(delayed[0].status, WcStatus::kSuccess);
  send(6, 0, 64);
  pair.run(20);
  const auto failed = pair.take_completions(0);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].status, WcStatus::kRetryExceeded);
}

TEST_F(Direct, requests_before_the_one_that_needs_the_peer_are_executed_when_the_window_ends) {
  connect();
  pair.run(20);
  delay(5);
  delay(6);
  send(7, 0, 64);
  pair.run(2);
  pair.window->kill(1);
  pair.run(400);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kSuccess);
  EXPECT_EQ(done[2].status, WcStatus::kRetryExceeded);
}

}  // namespace
}  // namespace weft::test
