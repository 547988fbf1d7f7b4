// What a send queue that drains, fails or starts again owes its peer: a message that has begun is finished or
// never heard of again, and what was changed meanwhile holds for what follows.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kPacketBytes = 64 * 256;

class SendStates : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  PostResult send(QueuePair& qp, uint64_t wr_id, uint32_t bytes, uint32_t from = 0) {
    const Sge sge = pair.side(0).sge(from, bytes);
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}});
  }
  ModifyResult move_to(QueuePair& qp, QpState state, QpAttr attr = {}, uint32_t mask = 0) {
    attr.state = state;
    attr.sqd_notify = true;
    const bool drains = state == QpState::kSqd && adapter().query_qp(qp).state == QpState::kRts;
    return adapter().modify_qp(qp, attr, kQpAttrState | mask | (drains ? kQpAttrSqdNotify : 0U));
  }
  int64_t count_events(AsyncEventKind kind) {
    int64_t count = 0;
    for (AsyncEvent event; adapter().next_event(event);) count += event.kind == kind ? 1 : 0;
    return count;
  }

  AdapterPair pair;
};

TEST_F(SendStates, a_queue_is_drained_when_the_message_that_has_begun_is_complete) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const auto qps = pair.connect({.type = type});
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
    constexpr uint32_t kBytes = 10 * kPacketBytes;
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, kBytes)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], 1, kBytes), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], 2, 64), PostResult::kOk);
    pair.run(2);
    ASSERT_TRUE(pair.side(0).completions.empty()) << "half sent";
    count_events(AsyncEventKind::kSqDrained);
    ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
    EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 0);
    pair.run(400);
    EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 1);
    ASSERT_EQ(pair.side(0).completions.size(), 1U) << "the one that had begun, and not the next";
    EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
    ASSERT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_EQ(pair.side(1).completions[0].byte_count, kBytes);
  }
}

/// What was posted before it may still be under way: it completes, and the failure after it.
TEST_F(SendStates, nothing_is_executed_behind_a_request_that_failed_here) {
  const auto qps = pair.connect({});
  for (uint64_t i = 0; i < 2; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  ASSERT_EQ(send(*qps[0], 1, 64), PostResult::kOk);
  Sge bad = pair.side(0).sge(0, 64);
  bad.lkey = Lkey(bad.lkey.value() ^ 0x1000U);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 2, .sges = {&bad, 1}}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 3, 64), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 1U);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  const auto& done = pair.side(0).completions;
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kLocalProtection);
  EXPECT_EQ(done[2].status, WcStatus::kFlushed);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
}

TEST_F(SendStates, a_queue_that_drains_goes_on_when_its_port_is_back) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const auto qps = pair.connect({.type = type});
    pair.side(1).completions.clear();
    constexpr uint32_t kBytes = 10 * kPacketBytes;
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, kBytes)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], 1, kBytes), PostResult::kOk);
    pair.run(2);
    ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
    pair.pipe.set_up(false);
    pair.run(5);
    count_events(AsyncEventKind::kSqDrained);
    pair.pipe.set_up(true);
    pair.run(400);
    EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 1);
    EXPECT_EQ(pair.side(1).completions.size(), 1U);
  }
}

TEST_F(SendStates, a_delay_that_has_begun_ends_before_the_queue_is_drained) {
  const auto qps = pair.connect({});
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .opcode = SendOpcode::kDelay, .delay = 1ms}),
            PostResult::kOk);
  pair.run(2);
  count_events(AsyncEventKind::kSqDrained);
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
  pair.run(10);
  EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 0);
  pair.run(200);
  EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 1);
  EXPECT_EQ(pair.side(0).completions.size(), 1U);
}

TEST_F(SendStates, a_new_address_given_while_drained_holds_for_what_is_sent_next) {
  const auto qps = pair.connect({});
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
  pair.run(3);
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd, {.dlid = Lid(5), .sl = ServiceLevel(1)}, kQpAttrAddress),
            ModifyResult::kOk);
  ASSERT_EQ(move_to(*qps[0], QpState::kRts), ModifyResult::kOk);
  EXPECT_EQ(adapter().query_qp(*qps[0]).dlid, Lid(5));
  ASSERT_EQ(send(*qps[0], 1, 64), PostResult::kOk);
  pair.run(3);
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_FALSE(cells.empty());
  EXPECT_EQ(cells[0]->view.dlid, Lid(5));
  EXPECT_EQ(cells[0]->view.sl, ServiceLevel(1));
}

/// The QP takes cells from where it sends to, and from nowhere else (PUSH-CHAN-07).
TEST_F(SendStates, with_the_address_changes_whom_the_queue_pair_hears) {
  const auto qps = pair.connect({});
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
  pair.run(3);
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd, {.dlid = Lid(5)}, kQpAttrAddress), ModifyResult::kOk);
  const Sge sge = pair.side(1).sge(0, 64);
  ASSERT_EQ(pair.post_recv(0, *qps[0], 1, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(adapter(1).post_send(*qps[1], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(3);
  EXPECT_TRUE(pair.side(0).completions.empty()) << "from LID 2, which is not its peer any more";
  EXPECT_GT(adapter().counters().get(AdapterCounter::kDropSource), 0U);
}

TEST_F(SendStates, no_address_changes_under_what_is_in_flight) {
  const auto qps = pair.connect({});
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  ASSERT_EQ(send(*qps[0], 1, 64), PostResult::kOk);
  pair.run(2);
  ASSERT_EQ(move_to(*qps[0], QpState::kSqd), ModifyResult::kOk);
  EXPECT_EQ(move_to(*qps[0], QpState::kSqd, {.dlid = Lid(5)}, kQpAttrAddress), ModifyResult::kNotDrained);
  EXPECT_EQ(adapter().query_qp(*qps[0]).dlid, Lid(2));
  EXPECT_EQ(move_to(*qps[0], QpState::kSqd, {.retry_count = 3}, kQpAttrRetryCount), ModifyResult::kOk);
}

class UcSendError : public SendStates {
 protected:
  /// A UC message of two packets fails in `packet` after `cells` of its cells; then the queue goes on.
  void fail_half_sent(uint32_t cells_sent) {
    qps = pair.connect({.type = QpType::kUc});
    PairSide& near = pair.side(0);
    failing.assign(2 * kPacketBytes, std::byte{0xBB});
    const auto region = adapter().memory().regions.reg_mr(near.pd, failing, Access::kLocalWrite).value();
    for (uint64_t i = 0; i < 4; ++i)
      ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 2 * kPacketBytes)}), PostResult::kOk);
    pair.pipe.set_room(0, cells_sent);
    const Sge bad{region.addr, 2 * kPacketBytes, region.lkey};
    ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .sges = {&bad, 1}}), PostResult::kOk);
    pair.run(3);
    ASSERT_TRUE(adapter().memory().regions.dereg_mr(region.lkey).ok());
    pair.pipe.set_room(0, UINT32_MAX);
    pair.run(5);
    ASSERT_EQ(near.completions.size(), 1U);
    ASSERT_EQ(near.completions[0].status, WcStatus::kLocalProtection);
    ASSERT_EQ(move_to(*qps[0], QpState::kRts), ModifyResult::kOk);
  }
  std::array<QueuePair*, 2> qps{};
  std::vector<std::byte> failing;
};

TEST_F(UcSendError, nothing_of_a_message_that_failed_half_sent_comes_with_the_next_one) {
  for (const uint32_t cells : {1U, 63U, 64U, 65U, 127U}) {
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
    ASSERT_NO_FATAL_FAILURE(fail_half_sent(cells));
    std::fill_n(pair.side(0).memory.begin(), kPacketBytes, std::byte{0xCC});
    ASSERT_EQ(send(*qps[0], 2, kPacketBytes), PostResult::kOk);
    pair.run(5);
    ASSERT_EQ(pair.side(1).completions.size(), 1U)
        << "the next message arrives, cells sent before: " << cells;
    EXPECT_EQ(pair.side(1).completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(pair.side(1).completions[0].byte_count, kPacketBytes);
    const std::vector<std::byte> got = pair.side(1).bytes_at(0, kPacketBytes);
    EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{0xCC}), kPacketBytes) << "cells: " << cells;
    EXPECT_GT(adapter(1).missed_packets(*qps[1]), 0U) << "the loss is counted, cells: " << cells;
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kProtocolViolations), 0U) << "cells: " << cells;
  }
}

}  // namespace
}  // namespace weft::test
