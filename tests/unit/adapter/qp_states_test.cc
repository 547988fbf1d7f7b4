// What the states of a QP mean for its queues: flush, drain and reset leave nothing behind that the next life
// of the QP would feel, and neither does a port that comes back.
#include <gtest/gtest.h>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class QpStates : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  PostResult send(QueuePair& qp, uint64_t wr_id, uint32_t bytes = 100) {
    const Sge sge = pair.side(0).sge(0, bytes);
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}});
  }
  void drop_from(int side) {
    pair.pipe.set_filter(
        [side](int from, std::vector<std::byte>&) { return from == side ? Verdict::kDrop : Verdict::kPass; });
  }
  void move_to(QueuePair& qp, QpState state) {
    QpAttr attr;
    attr.state = state;
    attr.sqd_notify = true;
    const uint32_t notify = state == QpState::kSqd ? kQpAttrSqdNotify : 0U;
    ASSERT_EQ(adapter().modify_qp(qp, attr, adapter::kQpAttrState | notify), ModifyResult::kOk);
  }
  /// Events of that kind at side 0 since the last call; the others are forgotten.
  int64_t count_events(AsyncEventKind kind) {
    int64_t count = 0;
    for (AsyncEvent event; adapter().next_event(event);) count += event.kind == kind ? 1 : 0;
    return count;
  }
  QpState state(const QueuePair& qp) { return adapter().query_qp(qp).state; }
  /// The port returns with another cell size while a message of `qp` is on its way.
  void change_cells_under(QueuePair& qp) {
    drop_from(0);
    ASSERT_EQ(send(qp, 1, 600), PostResult::kOk);
    pair.run(2);
    pair.pipe.set_up(false);
    pair.run(2);
    pair.pipe.set_cell_payload(512);
    pair.pipe.set_filter(nullptr);
    pair.pipe.clear_trace();
    pair.pipe.set_up(true);
    pair.run(2);
  }
  void run_for(Duration time) { pair.run(static_cast<int>(time / 100us), 100us); }

  AdapterPair pair;
};

/// Packets that were cut for another cell size cannot be repeated.
TEST_F(QpStates, a_port_that_returns_with_another_cell_size_ends_the_queue_pairs_that_wait) {
  const auto waiting = pair.connect({});
  const auto idle = pair.connect({});
  change_cells_under(*waiting[0]);
  EXPECT_EQ(state(*waiting[0]), QpState::kErr);
  EXPECT_EQ(count_events(AsyncEventKind::kQpFatal), 1);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kFlushed);
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());

  EXPECT_EQ(state(*idle[0]), QpState::kRts);
  ASSERT_EQ(pair.post_recv(1, *idle[1], 2, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  ASSERT_EQ(send(*idle[0], 2, 600), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(0).size(), 2U) << "cells of the new size";
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kSuccess);
}

TEST_F(QpStates, a_queue_pair_that_another_cell_size_ended_takes_it_in_its_next_life) {
  const auto qps = pair.connect({});
  change_cells_under(*qps[0]);
  ASSERT_EQ(state(*qps[0]), QpState::kErr);
  for (int i = 0; i < 2; ++i) {
    QueuePair& qp = *qps[static_cast<size_t>(i)];
    ASSERT_EQ(adapter(i).modify_qp(qp, {.state = QpState::kReset}, kQpAttrState), ModifyResult::kOk);
    const Qpn peer = adapter(1 - i).qpn(*qps[static_cast<size_t>(1 - i)]);
    pair.bring_up(i, qp, {}, peer, Lid(static_cast<uint16_t>(2 - i)), Psn(5), Psn(5));
  }
  pair.side(0).completions.clear();
  ASSERT_EQ(pair.post_recv(1, *qps[1], 2, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 2, 600), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(state(*qps[0]), QpState::kRts);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

TEST_F(QpStates, one_that_talks_to_its_own_node_does_not_mind_that_the_port_is_gone) {
  const auto loop = pair.connect({}, {}, 0, 0);
  const auto away = pair.connect({});
  pair.run(2);
  pair.pipe.set_up(false);
  pair.run(13, 1s);
  EXPECT_EQ(state(*away[0]), QpState::kErr);
  EXPECT_EQ(state(*loop[0]), QpState::kRts);
  EXPECT_EQ(state(*loop[1]), QpState::kRts);
  ASSERT_EQ(pair.post_recv(0, *loop[1], 2, {pair.side(0).sge(4096, 128)}), PostResult::kOk);
  pair.side(0).completions.clear();
  ASSERT_EQ(send(*loop[0], 1), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  for (const WorkCompletion& done : pair.side(0).completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
}

TEST_F(QpStates, each_drain_is_told_once) {
  const auto qps = pair.connect({});
  for (int round = 0; round < 2; ++round) {
    count_events(AsyncEventKind::kSqDrained);
    move_to(*qps[0], QpState::kSqd);
    pair.run(20);
    EXPECT_EQ(count_events(AsyncEventKind::kSqDrained), 1) << round;
    move_to(*qps[0], QpState::kRts);
  }
}

TEST_F(QpStates, a_receive_posted_to_a_failed_queue_pair_is_flushed) {
  const auto qps = pair.connect({});
  move_to(*qps[0], QpState::kErr);
  ASSERT_EQ(pair.post_recv(0, *qps[0], 9, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  pair.run(2);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 9U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kFlushed);
}

TEST_F(QpStates, a_receive_with_more_segments_than_agreed_is_refused) {
  const auto qps = pair.connect({.sges = 2});
  const Sge sge = pair.side(0).sge(0, 64);
  EXPECT_EQ(pair.post_recv(0, *qps[0], 1, {sge, sge, sge}), PostResult::kTooManySges);
  EXPECT_EQ(pair.post_recv(0, *qps[0], 2, {sge, sge}), PostResult::kOk);
}

TEST_F(QpStates, what_a_service_does_not_have_is_refused_where_it_is_asked_for) {
  const auto made = [this](const QpConfig& wanted) {
    QpConfig config = wanted;
    config.pd = pair.side(0).pd;
    config.send_cq = config.recv_cq = pair.side(0).cq;
    return adapter().create_qp(config).ok();
  };
  for (const QpType type : {QpType::kRc, QpType::kRd, QpType::kUc, QpType::kUd, QpType::kRaw}) {
    EXPECT_EQ(made({.type = type, .ack_mode = AckMode::kStrict}), is_acknowledged(type));
    EXPECT_EQ(made({.type = type, .packet_crc = true}), is_connected(type));
  }
  const auto qps = pair.connect({});
  const Sge sge = pair.side(0).sge(0, 64);
  EXPECT_EQ(adapter().post_send(*qps[0], {.flags = 1U << 4, .sges = {&sge, 1}}), PostResult::kBadOpcode);
}

TEST_F(QpStates, one_that_starts_again_has_all_its_retries) {
  QpAttr attr;
  attr.rnr_retry = 2;
  attr.min_rnr_timer = 1ms;
  const auto qps = pair.connect({}, attr);
  for (uint64_t life = 1; life <= 2; ++life) {
    ASSERT_EQ(send(*qps[0], life), PostResult::kOk);
    run_for(20ms);
    ASSERT_EQ(pair.side(0).completions.size(), life);
    EXPECT_EQ(pair.side(0).completions.back().status, WcStatus::kRnrRetryExceeded);
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kRnrNaksSent), 3 * life);
    move_to(*qps[0], QpState::kReset);
    pair.bring_up(0, *qps[0], {}, adapter(1).qpn(*qps[1]), Lid(2), Psn(100), Psn(0xFFFFF0), attr);
  }
}

/// A stream without a pause must not put the acknowledgement off for ever.
TEST_F(QpStates, an_acknowledgement_waits_no_longer_than_its_delay_from_the_first_cell) {
  const auto qps = pair.connect({.signal_all = false});
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 128)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], i), PostResult::kOk);
    pair.run(3);
  }
  EXPECT_GE(pair.pipe.sent_by(1, Opcode::kAck).size(), 2U);
}

TEST_F(QpStates, a_completion_queue_overruns_once) {
  CompletionQueue* small = adapter().cqs().create(2).value();
  const QpConfig config{.send_cq = small};
  QueuePair* qp = pair.make_qp(0, config);
  pair.bring_up(0, *qp, config, Qpn(0x222222), Lid(2), Psn(1), Psn(2));
  for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(send(*qp, i), PostResult::kOk);
  move_to(*qp, QpState::kErr);
  pair.run(5);
  EXPECT_EQ(adapter().counters().get(AdapterCounter::kCqOverruns), 6U);
  EXPECT_EQ(count_events(AsyncEventKind::kCqOverrun), 1);
}

/// A device has its adapter before its first port is there.
TEST(QpWithoutPort, every_type_is_made_reset_and_destroyed_without_a_port) {
  SeededRandom random(1);
  ChannelAdapter adapter({.guid = Guid(1)}, random);
  const PdId pd = adapter.alloc_pd().value();
  CompletionQueue* cq = adapter.cqs().create(16).value();
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd}) {
    QueuePair* qp = adapter.create_qp({.type = type, .pd = pd, .send_cq = cq, .recv_cq = cq}).value();
    const uint32_t mask = kQpAttrState | find_qp_rule(type, QpState::kReset, QpState::kInit)->required;
    EXPECT_NE(adapter.modify_qp(*qp, {.state = QpState::kInit, .port = 1}, mask), ModifyResult::kOk);
    for (const QpState state : {QpState::kErr, QpState::kReset})
      EXPECT_EQ(adapter.modify_qp(*qp, {.state = state}, kQpAttrState), ModifyResult::kOk);
    EXPECT_TRUE(adapter.destroy_qp(qp).ok());
  }
}

}  // namespace
}  // namespace weft::test
