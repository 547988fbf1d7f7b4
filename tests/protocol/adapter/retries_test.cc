// The time that a requester waits for a silent peer: time in which no answer could arrive does not count, and
// time that was counted before such an interruption still counts after it.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
using namespace std::chrono_literals;
namespace {

class Retries : public ::testing::Test {
 protected:
  static constexpr Duration kAckTimeout = 80ms;
  static constexpr Duration kStep = 1ms;
  static constexpr uint8_t kRetries = 3;

  /// Sends a request that never arrives.
  void send_lost_request() {
    QpAttr attr;
    attr.ack_timeout = kAckTimeout;
    attr.retry_count = kRetries;
    qps_ = pair_.connect({}, attr);
    pair_.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
    const Sge sge = pair_.side(0).sge(0, 100);
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
    pair_.run(1, Duration{});
  }
  /// Runs for `time`, or until the request completes; @return the time for which it ran.
  Duration run_for(Duration time) {
    Duration waited{};
    for (; waited < time && pair_.side(0).completions.empty(); waited += kStep) pair_.run(1, kStep);
    return waited;
  }
  void expect_given_up() {
    ASSERT_EQ(pair_.side(0).completions.size(), 1U);
    EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kRetryExceeded);
  }

  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
};

/// The port is never up for as long as all retries take.
TEST_F(Retries, a_port_that_comes_and_goes_does_not_make_them_begin_anew) {
  send_lost_request();
  Duration up{};
  for (int times = 0; times < 20 && pair_.side(0).completions.empty(); ++times) {
    up += run_for(kAckTimeout * 3 / 2);
    if (!pair_.side(0).completions.empty()) break;
    pair_.pipe.set_up(false);
    EXPECT_EQ(run_for(10 * kAckTimeout), 10 * kAckTimeout) << "no time counts while it is down";
    pair_.pipe.set_up(true);
  }
  expect_given_up();
  EXPECT_GE(up, kAckTimeout * (kRetries + 1));
  EXPECT_LE(up, kAckTimeout * 3 / 2 * (kRetries + 1))
      << "each interruption may lose the ack_timeout that has begun";
}

TEST_F(Retries, a_lane_without_credit_does_not_make_them_begin_anew) {
  send_lost_request();
  Duration free = run_for(kAckTimeout * 5 / 2);
  pair_.pipe.set_room(0, 0);
  EXPECT_EQ(run_for(10 * kAckTimeout), 10 * kAckTimeout) << "no time counts while nothing can leave";
  pair_.pipe.set_room(0, UINT32_MAX);
  free += run_for(10 * kAckTimeout);
  expect_given_up();
  EXPECT_GE(free, kAckTimeout * (kRetries + 1));
  EXPECT_LE(free, kAckTimeout * (kRetries + 2));
}

/// The lane has no credit at some moments of each ack_timeout.
TEST_F(Retries, a_lane_that_pauses_again_and_again_does_not_put_them_off_for_ever) {
  send_lost_request();
  Duration free{};
  for (int times = 0; times < 40 && pair_.side(0).completions.empty(); ++times) {
    free += run_for(kAckTimeout / 4);
    pair_.pipe.set_room(0, 0);
    static_cast<void>(run_for(kAckTimeout / 2));
    pair_.pipe.set_room(0, UINT32_MAX);
  }
  expect_given_up();
  EXPECT_GE(free, kAckTimeout);
}

/// An answer restarts the retries.
TEST_F(Retries, begin_anew_with_an_answer) {
  send_lost_request();
  static_cast<void>(run_for(kAckTimeout * 5 / 2));
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 7, {pair_.side(1).sge(0, 256)}), PostResult::kOk);
  pair_.pipe.set_filter(nullptr);
  static_cast<void>(run_for(kAckTimeout));
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kSuccess);
  pair_.side(0).completions.clear();
  pair_.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  const Sge sge = pair_.side(0).sge(0, 100);
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], {.wr_id = 2, .sges = {&sge, 1}}), PostResult::kOk);
  EXPECT_GE(run_for(10 * kAckTimeout), kAckTimeout * (kRetries + 1));
  expect_given_up();
}

/// A receiver that is not ready has answered, too: the retries that were used before it do not count in a
/// later interruption.
TEST_F(Retries, begin_anew_when_the_receiver_is_not_ready) {
  send_lost_request();
  EXPECT_EQ(run_for(kAckTimeout * 5 / 2), kAckTimeout * 5 / 2);
  pair_.pipe.set_filter(nullptr);
  const auto refused = [&] {
    return pair_.side(0).adapter->counters(*qps_[0]).get(QpCounter::kRnrNaksReceived);
  };
  for (Duration waited{}; refused() == 0 && waited < kAckTimeout; waited += kStep) pair_.run(1, kStep);
  ASSERT_EQ(refused(), 1U);
  pair_.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  pair_.pipe.set_up(false);
  EXPECT_EQ(run_for(10 * kAckTimeout), 10 * kAckTimeout);
  pair_.pipe.set_up(true);
  EXPECT_GE(run_for(10 * kAckTimeout), kAckTimeout * (kRetries + 1));
  expect_given_up();
}

/// The request was repeated a moment ago, so a second answer is on its way.
TEST(ReadRetries, a_gap_in_the_first_answer_is_not_asked_for_a_third_time) {
  AdapterPair pair;
  const auto qps = pair.connect({});
  pair.side(1).fill(0, 768, 1);
  std::vector<std::vector<std::byte>> answer;  // of three cells
  pair.pipe.set_filter([&](int, std::vector<std::byte>& cell) {
    CellView view;
    EXPECT_EQ(decode_cell(cell, CrcCheck::kVerify, view), CellError::kNone);
    if (view.opcode == Opcode::kRdmaReadResponse) answer.push_back(cell);
    return view.opcode == Opcode::kRdmaReadRequest ? Verdict::kPass : Verdict::kDrop;
  });
  const Sge to = pair.side(0).sge(4096, 768);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaRead,
                                                      .sges = {&to, 1},
                                                      .remote_addr = pair.side(1).region.addr,
                                                      .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  const auto repeated = [&] {
    return pair.side(0).adapter->counters(*qps[0]).get(QpCounter::kCellsRepeated);
  };
  for (int turn = 0; repeated() == 0 && turn < 10'000; ++turn) pair.run(1);
  ASSERT_EQ(repeated(), 1U);
  ASSERT_GE(answer.size(), 3U);
  for (const size_t cell : {1U, 2U}) pair.pipe.inject(0, answer[cell]);
  pair.run_one(0);
  EXPECT_EQ(repeated(), 1U);
  pair.pipe.set_filter(nullptr);
  pair.run(10'000);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).bytes_at(4096, 768), pair.side(1).bytes_at(0, 768));
}

}  // namespace
}  // namespace weft::test
