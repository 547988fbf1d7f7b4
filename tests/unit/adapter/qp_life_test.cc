// The life of a QP beyond the good case: flush in order, RESET to RTS again, draining, send errors, retry
// limits, a port that goes down, completion queues that overrun, numbers of QPs.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "adapter/bring_up.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class QpLife : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  PostResult send(QueuePair& qp, uint64_t wr_id, uint32_t bytes = 100, uint32_t flags = 0) {
    const Sge sge = pair.side(0).sge(0, bytes);
    return adapter().post_send(qp, {.wr_id = wr_id, .flags = flags, .sges = {&sge, 1}});
  }
  void drop_from(int side) {
    pair.pipe.set_filter(
        [side](int from, std::vector<std::byte>&) { return from == side ? Verdict::kDrop : Verdict::kPass; });
  }
  std::vector<AsyncEvent> events(int index) {
    std::vector<AsyncEvent> out;
    for (AsyncEvent event; adapter(index).next_event(event);) out.push_back(event);
    return out;
  }
  bool saw(int index, AsyncEventKind kind) {
    for (const AsyncEvent& event : events(index)) {
      if (event.kind == kind) return true;
    }
    return false;
  }
  void run_for(Duration time) { pair.run(static_cast<int>(time / 100us), 100us); }

  AdapterPair pair;
};

TEST_F(QpLife, error_flushes_every_wqe_in_order_and_the_qp_can_start_again) {
  auto qps = pair.connect({});
  for (uint64_t i = 0; i < 5; ++i)
    ASSERT_EQ(pair.post_recv(0, *qps[0], 100 + i, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  drop_from(0);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(send(*qps[0], i), PostResult::kOk);
  pair.run(3);
  QpAttr attr;
  attr.state = QpState::kErr;
  ASSERT_EQ(adapter().modify_qp(*qps[0], attr, adapter::kQpAttrState), ModifyResult::kOk);
  ASSERT_EQ(send(*qps[0], 5), PostResult::kOk);  // accepted and flushed
  pair.run(3);
  auto& got = pair.side(0).completions;
  ASSERT_EQ(got.size(), 11U);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(got[i].wr_id, i);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(got[5 + i].wr_id, 100 + i);
  EXPECT_EQ(got[10].wr_id, 5U);
  for (const WorkCompletion& entry : got) EXPECT_EQ(entry.status, WcStatus::kFlushed);
  got.clear();

  // RESET to RTS works again, on both sides, with new numbers.
  pair.pipe.set_filter(nullptr);
  for (int i = 0; i < 2; ++i) {
    attr.state = QpState::kReset;
    ASSERT_EQ(adapter(i).modify_qp(*qps[static_cast<size_t>(i)], attr, adapter::kQpAttrState),
              ModifyResult::kOk);
  }
  pair.bring_up(0, *qps[0], {}, adapter(1).qpn(*qps[1]), Lid(2), Psn(5), Psn(9));
  pair.bring_up(1, *qps[1], {}, adapter(0).qpn(*qps[0]), Lid(1), Psn(9), Psn(5));
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 77), PostResult::kOk);
  pair.run();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].status, WcStatus::kSuccess);
  EXPECT_EQ(got[0].wr_id, 77U);
}

/// However often it was asked meanwhile: that is more than once within a longer timeout.
TEST_F(QpLife, silence_ends_in_retry_exceeded_after_the_retries_and_not_before) {
  for (const Duration timeout : {Duration(8ms), Duration(80ms)}) {
    QpAttr attr;
    attr.ack_timeout = timeout;
    attr.retry_count = 3;
    auto qps = pair.connect({}, attr);
    drop_from(1);
    auto& got = pair.side(0).completions;
    got.clear();
    ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], 2), PostResult::kOk);
    run_for(4 * timeout - 1ms);
    EXPECT_TRUE(got.empty());
    run_for(timeout / 2 + 1ms);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got[0].status, WcStatus::kRetryExceeded);
    EXPECT_EQ(got[1].status, WcStatus::kFlushed);
    EXPECT_EQ(adapter().query_qp(*qps[0]).state, QpState::kErr);
    EXPECT_TRUE(saw(0, AsyncEventKind::kQpFatal));
  }
}

TEST_F(QpLife, retry_count_zero_repeats_nothing) {
  QpAttr attr;
  attr.ack_timeout = 8ms;
  attr.retry_count = 0;
  auto qps = pair.connect({}, attr);
  drop_from(1);
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  run_for(10ms);
  EXPECT_EQ(pair.pipe.sent_by(0).size(), 1U);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kRetryExceeded);
}

TEST_F(QpLife, rnr_retries_are_counted_and_seven_means_for_ever) {
  for (const uint8_t limit : {uint8_t{2}, uint8_t{7}}) {
    QpAttr attr;
    attr.rnr_retry = limit;
    attr.min_rnr_timer = 1ms;
    auto qps = pair.connect({}, attr);
    pair.side(0).completions.clear();
    pair.pipe.clear_trace();
    ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
    run_for(300ms);
    if (limit == 7) {
      EXPECT_TRUE(pair.side(0).completions.empty());
      EXPECT_GT(adapter(1).counters(*qps[1]).get(QpCounter::kRnrNaksSent), 50U);
      ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
      run_for(5ms);
      ASSERT_EQ(pair.side(0).completions.size(), 1U);
      EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
    } else {
      ASSERT_EQ(pair.side(0).completions.size(), 1U);
      EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kRnrRetryExceeded);
      EXPECT_EQ(pair.pipe.sent_by(1, Opcode::kNak).size(), 3U);  // the first and two retries
    }
  }
}

TEST_F(QpLife, rnr_retries_are_counted_for_each_message_anew_and_once_for_each_pause) {
  QpAttr attr;
  attr.rnr_retry = 2;
  attr.min_rnr_timer = 1ms;
  auto qps = pair.connect({}, attr);
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kTwice : Verdict::kPass; });
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(send(*qps[0], i), PostResult::kOk);
    run_for(1500us);  // two refusals
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
    run_for(3ms);
    ASSERT_EQ(pair.side(0).completions.size(), i + 1);
    EXPECT_EQ(pair.side(0).completions[i].status, WcStatus::kSuccess) << i;
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kRnrNaksSent), 2 * (i + 1));
  }
}

/// A responder that says "not ready" is there: what is lost between its answers is no silence that adds up.
TEST_F(QpLife, answers_of_a_responder_that_is_not_ready_break_its_silence) {
  QpAttr attr;
  attr.ack_timeout = 8ms;
  attr.retry_count = 3;
  attr.rnr_retry = 7;
  attr.min_rnr_timer = 1ms;
  auto qps = pair.connect({}, attr);
  int answers = 0;
  pair.pipe.set_filter([&answers](int from, std::vector<std::byte>&) {
    return from == 1 && ++answers % 2 == 0 ? Verdict::kDrop : Verdict::kPass;
  });
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  run_for(500ms);
  EXPECT_TRUE(pair.side(0).completions.empty());
  EXPECT_GT(adapter(0).counters(*qps[0]).get(QpCounter::kTimeouts), 20U);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  run_for(20ms);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
}

TEST_F(QpLife, silence_is_asked_about_ever_more_rarely) {
  QpAttr attr;
  attr.ack_timeout = 1s;
  attr.retry_count = 7;
  auto qps = pair.connect({}, attr);
  drop_from(1);
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  run_for(1s);
  EXPECT_GE(pair.pipe.sent_by(0).size(), 5U);
  EXPECT_LE(pair.pipe.sent_by(0).size(), 8U) << "after 20, 60, 140, 300 ms and then each quarter of a second";
}

TEST_F(QpLife, draining_finishes_what_was_started_and_holds_the_rest) {
  auto qps = pair.connect({});
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  pair.run(2);
  QpAttr attr;
  attr.state = QpState::kSqd;
  attr.sqd_notify = true;
  ASSERT_EQ(adapter().modify_qp(*qps[0], attr, kQpAttrState | kQpAttrSqdNotify), ModifyResult::kOk);
  ASSERT_EQ(send(*qps[0], 2), PostResult::kOk);
  pair.run(20);
  EXPECT_FALSE(saw(0, AsyncEventKind::kSqDrained));
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  EXPECT_TRUE(saw(0, AsyncEventKind::kSqDrained));
  EXPECT_EQ(pair.side(0).completions.size(), 1U);
  attr.state = QpState::kRts;
  ASSERT_EQ(adapter().modify_qp(*qps[0], attr, adapter::kQpAttrState), ModifyResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.side(0).completions.size(), 2U);
}

TEST_F(QpLife, a_bad_send_on_an_unacknowledged_service_stops_the_send_queue_alone) {
  auto qps = pair.connect({.type = QpType::kUc});
  ASSERT_EQ(pair.post_recv(0, *qps[0], 7, {pair.side(0).sge(0, 256)}), PostResult::kOk);
  Sge bad = pair.side(0).sge(0, 100);
  bad.lkey = Lkey(bad.lkey.value() ^ 1);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .sges = {&bad, 1}}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 2), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kLocalProtection);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kFlushed);
  EXPECT_EQ(adapter().query_qp(*qps[0]).state, QpState::kSqe);
  const Sge sge = pair.side(1).sge(0, 10);
  ASSERT_EQ(adapter(1).post_send(*qps[1], {.wr_id = 3, .sges = {&sge, 1}}), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(0).completions.size(), 3U);  // still receives
  QpAttr attr;
  attr.state = QpState::kRts;
  ASSERT_EQ(adapter().modify_qp(*qps[0], attr, adapter::kQpAttrState), ModifyResult::kOk);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 8, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 4), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(0).completions.size(), 4U) << "and sends again";
  EXPECT_EQ(pair.side(0).completions.back().wr_id, 4U);
  EXPECT_EQ(pair.side(0).completions.back().status, WcStatus::kSuccess);
}

TEST_F(QpLife, nothing_is_lost_while_the_port_is_down_for_less_than_ten_seconds) {
  QpAttr attr;
  attr.ack_timeout = 8ms;  // what cannot leave needs no retry
  attr.retry_count = 0;
  auto qps = pair.connect({}, attr);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  drop_from(0);  // what was in flight is gone with the link
  pair.side(0).fill(0, 4000, 9);
  ASSERT_EQ(send(*qps[0], 1, 4000), PostResult::kOk);
  pair.run(2);
  pair.pipe.set_up(false);
  pair.pipe.set_filter(nullptr);
  pair.run(900, 10ms);
  EXPECT_TRUE(pair.side(0).completions.empty());
  EXPECT_FALSE(adapter().ports().up(1));
  pair.pipe.set_up(true);
  pair.run(100);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(1).bytes_at(0, 4000), pair.side(0).bytes_at(0, 4000));
  EXPECT_EQ(adapter().ports().total(AdapterPortCounter::kDowns), 1U);
}

TEST_F(QpLife, a_port_down_for_ten_seconds_fails_its_connections) {
  auto qps = pair.connect({});
  pair.pipe.set_up(false);
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  pair.run(1010, 10ms);
  EXPECT_EQ(adapter().query_qp(*qps[0]).state, QpState::kErr);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kFlushed);
  EXPECT_TRUE(saw(0, AsyncEventKind::kPortExpired));
}

TEST_F(QpLife, an_overrun_cq_is_an_event_and_ends_its_qps) {
  CompletionQueue* small = adapter(1).cqs().create(2).value();
  const QpConfig config{};
  QueuePair* a = pair.make_qp(0, config);
  QueuePair* b = pair.make_qp(1, {.recv_cq = small});
  pair.bring_up(0, *a, config, adapter(1).qpn(*b), Lid(2), Psn(1), Psn(2));
  pair.bring_up(1, *b, config, adapter(0).qpn(*a), Lid(1), Psn(2), Psn(1));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(pair.post_recv(1, *b, i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
    ASSERT_EQ(send(*a, i), PostResult::kOk);
  }
  pair.run(5);
  EXPECT_TRUE(adapter(1).cqs().query(*small).overrun);
  EXPECT_EQ(adapter(1).cqs().query(*small).fill, 2U);
  EXPECT_GE(adapter(1).counters().get(AdapterCounter::kCqOverruns), 1U);
  EXPECT_EQ(adapter(1).query_qp(*b).state, QpState::kErr);
  EXPECT_TRUE(saw(1, AsyncEventKind::kCqOverrun));
}

TEST_F(QpLife, an_armed_cq_notifies_once_and_solicited_only_when_asked) {
  auto qps = pair.connect({});
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  adapter(1).cqs().arm(*pair.side(1).cq, CqNotify::kSolicited);
  ASSERT_EQ(send(*qps[0], 1), PostResult::kOk);
  pair.run(5);
  EXPECT_FALSE(adapter(1).cqs().take_notification(*pair.side(1).cq));
  ASSERT_EQ(send(*qps[0], 2, 100, adapter::kSendSolicited), PostResult::kOk);
  pair.run(5);
  EXPECT_TRUE(adapter(1).cqs().take_notification(*pair.side(1).cq));
  EXPECT_FALSE(adapter(1).cqs().take_notification(*pair.side(1).cq));
  EXPECT_NE(pair.side(1).completions.back().flags & adapter::kWcSolicited, 0);
  adapter().cqs().arm(*pair.side(0).cq, CqNotify::kSolicited);
  Sge bad = pair.side(0).sge(0, 100);
  bad.lkey = Lkey(bad.lkey.value() ^ 1);
  ASSERT_EQ(adapter().post_send(*qps[0], {.sges = {&bad, 1}}), PostResult::kOk);
  pair.run(5);
  EXPECT_TRUE(adapter().cqs().take_notification(*pair.side(0).cq)) << "a failure is always said";
}

TEST_F(QpLife, unsignalled_wqes_complete_in_silence) {
  auto qps = pair.connect({.signal_all = false});
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], i, 100, i == 5 ? uint32_t{adapter::kSendSignaled} : 0), PostResult::kOk);
  }
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 5U);
  EXPECT_EQ(pair.side(1).completions.size(), 6U);
}

TEST_F(QpLife, a_wqe_that_fails_completes_though_it_is_unsignalled) {
  auto qps = pair.connect({.signal_all = false});
  Sge bad = pair.side(0).sge(0, 100);
  bad.lkey = Lkey(bad.lkey.value() ^ 1);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 3, .sges = {&bad, 1}}), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 3U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kLocalProtection);
}

TEST_F(QpLife, the_first_key_violation_ends_the_connection_at_both_ends) {
  auto qps = pair.connect({});
  const std::vector<std::byte> before = pair.side(1).memory;
  const Sge sge = pair.side(0).sge(0, 100);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = pair.side(1).region.addr + kPairBufferBytes - 99,
                                          .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.side(1).memory, before);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(adapter(0).query_qp(*qps[0]).state, QpState::kErr);
  EXPECT_EQ(adapter(1).query_qp(*qps[1]).state, QpState::kErr);
  EXPECT_TRUE(saw(1, AsyncEventKind::kQpAccessError));
  EXPECT_EQ(adapter(1).access_faults().get(AccessFault::kOutOfBounds), 1U);
}

TEST_F(QpLife, a_key_revoked_in_the_middle_of_a_packet_stops_the_rest_of_it) {
  PairSide& far = pair.side(1);
  MemoryTable& table = adapter(1).memory();
  const auto write = [&](QueuePair& qp, uint64_t address, Rkey key, uint32_t bytes) {
    const Sge sge = pair.side(0).sge(0, bytes);
    EXPECT_EQ(adapter().post_send(qp, {.wr_id = 1,
                                       .opcode = SendOpcode::kRdmaWrite,
                                       .sges = {&sge, 1},
                                       .remote_addr = address,
                                       .rkey = key}),
              PostResult::kOk);
    pair.run(3);
  };
  const std::array<std::function<void(Rkey, uint64_t)>, 5> revocations{
      [&](Rkey key, uint64_t) { EXPECT_EQ(table.windows.unbind_rkey(far.pd, key), AccessFault::kNone); },
      [&](Rkey key, uint64_t) { EXPECT_EQ(table.windows.invalidate(far.pd, key), AccessFault::kNone); },
      [&](Rkey key, uint64_t) { EXPECT_TRUE(table.windows.dealloc_rkey(key).ok()); },
      [&](Rkey key, uint64_t address) {  // it serves one operation, and another ends first
        write(*pair.connect({})[0], address, key, 16);
      },
      [&](Rkey, uint64_t) { EXPECT_TRUE(table.regions.dereg_mr(far.region.lkey).ok()); }};
  pair.side(0).fill(0, 1024, 1);
  for (uint32_t i = 0; i < revocations.size(); ++i) {
    auto qps = pair.connect({});
    pair.side(0).completions.clear();
    pair.pipe.set_filter([](int from, std::vector<std::byte>& cell) {
      return from == 0 && load_be<uint16_t>(cell.data() + 28) > 1 ? Verdict::kHold : Verdict::kPass;
    });
    const uint32_t offset = i * 4096;
    const uint64_t address = far.region.addr + offset;
    Rkey key = far.region.rkey;
    if (i + 1 < revocations.size()) {
      const Access access = i == 3 ? Access::kRemoteWrite | Access::kOneShot : Access::kRemoteWrite;
      key = table.windows.alloc_rkey(far.pd).value();
      const BindRequest bind{key, far.region.lkey, address, 1024, access};
      ASSERT_EQ(table.windows.bind_rkey(far.pd, bind), AccessFault::kNone);
    }
    write(*qps[0], address, key, 1024);
    EXPECT_EQ(far.bytes_at(offset, 512), pair.side(0).bytes_at(0, 512));
    revocations[i](key, address);
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held();
    pair.run(20);
    EXPECT_EQ(far.bytes_at(offset + 512, 512), std::vector<std::byte>(512)) << i;
    EXPECT_EQ(pair.side(0).completions.back().status, WcStatus::kRemoteAccess) << i;
    if (i == 3) {
      EXPECT_TRUE(table.windows.dealloc_rkey(key).ok());
    }
  }
}

TEST_F(QpLife, a_key_revoked_in_the_middle_of_a_read_stops_the_rest_of_it) {
  QpAttr attr;
  attr.max_rd_atomic = 4;
  attr.ack_timeout = 8ms;
  attr.retry_count = 3;
  auto qps = pair.connect({}, attr);
  pair.side(1).fill(0, 4096, 1);
  pair.pipe.set_room(1, 4);
  const Sge sge = pair.side(0).sge(0, 4096);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = SendOpcode::kRdmaRead,
                                          .sges = {&sge, 1},
                                          .remote_addr = pair.side(1).region.addr,
                                          .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run(5);
  ASSERT_TRUE(adapter(1).memory().regions.dereg_mr(pair.side(1).region.lkey).ok());
  pair.pipe.set_room(1, 1000);
  run_for(100ms);
  EXPECT_EQ(pair.side(0).bytes_at(1024, 3072), std::vector<std::byte>(3072));
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kRetryExceeded) << "old repetitions end nothing";
  EXPECT_EQ(adapter(1).query_qp(*qps[1]).state, QpState::kRts);
}

TEST_F(QpLife, a_send_that_invalidates_ends_the_window_it_names) {
  auto qps = pair.connect({});
  PairSide& far = pair.side(1);
  MemoryTable& table = adapter(1).memory();
  const Rkey key = table.windows.alloc_rkey(far.pd).value();
  const BindRequest bind{key, far.region.lkey, far.region.addr, 64, Access::kRemoteWrite};
  ASSERT_EQ(table.windows.bind_rkey(far.pd, bind), AccessFault::kNone);
  const Sge sge = pair.side(0).sge(0, 16);
  for (uint64_t i = 0; i < 2; ++i) {  // the second names what is bound no more
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {far.sge(4096, 64)}), PostResult::kOk);
    const SendRequest send{
        .wr_id = i, .opcode = SendOpcode::kSendWithInvalidate, .sges = {&sge, 1}, .rkey = key};
    ASSERT_EQ(adapter().post_send(*qps[0], send), PostResult::kOk);
    run_for(1ms);
    EXPECT_FALSE(table.query(key.value())->valid);
  }
  ASSERT_GE(far.completions.size(), 1U);
  EXPECT_EQ(far.completions[0].flags, adapter::kWcWithInvalidate);
  EXPECT_EQ(far.completions[0].invalidated, key);
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kRemoteAccess);
}

TEST_F(QpLife, one_that_is_destroyed_acknowledges_what_it_has_and_answers_nobody) {
  auto qps = pair.connect({.signal_all = false});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 1, 64), PostResult::kOk);
  pair.run(2);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  ASSERT_TRUE(pair.pipe.sent_by(1).empty()) << "the acknowledgement waits for company";
  ASSERT_TRUE(adapter(1).destroy_qp(qps[1]).ok());
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(1).size(), 1U);
  ASSERT_EQ(send(*qps[0], 2, 64), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(1).size(), 1U);
}

TEST_F(QpLife, packets_are_no_longer_than_the_path_allows) {
  QpAttr attr;
  attr.path_mtu_bytes = 512;
  auto qps = pair.connect({}, attr);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], 1, 1024), PostResult::kOk);
  pair.run(5);
  const auto cells = pair.pipe.sent_by(0);
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[1]->view.psn, cells[0]->view.psn);
  EXPECT_EQ(cells[2]->view.psn, cells[0]->view.psn.plus(1));
  QpConfig config{.pd = pair.side(0).pd, .sges = adapter().limits().sges_per_wqe + 1};
  config.send_cq = config.recv_cq = pair.side(0).cq;
  EXPECT_FALSE(adapter().create_qp(config).ok());
}

TEST_F(QpLife, requests_that_cannot_be_are_refused_when_they_are_posted) {
  AdapterLimits limits;
  limits.message_bytes_max = 1000;
  AdapterPair small(256, limits);
  auto qps = small.connect({});
  const auto post = [&](SendOpcode opcode, uint32_t flags, uint32_t bytes) {
    const Sge sge = small.side(0).sge(0, bytes);
    return small.side(0).adapter->post_send(
        *qps[0], {.opcode = opcode, .flags = flags, .sges = {&sge, 1}, .remote_addr = 1, .rkey = Rkey(1)});
  };
  EXPECT_EQ(post(SendOpcode::kSend, 0, 1001), PostResult::kTooLong);
  EXPECT_EQ(post(SendOpcode::kSend, 0, 1000), PostResult::kOk);
  EXPECT_EQ(post(SendOpcode::kRdmaRead, adapter::kSendInline, 8), PostResult::kBadOpcode);
}

TEST_F(QpLife, a_protection_domain_stays_while_a_queue_pair_is_in_it) {
  const PdId pd = adapter().alloc_pd().value();
  QpConfig config{.pd = pd};
  config.send_cq = config.recv_cq = pair.side(0).cq;
  QueuePair* qp = adapter().create_qp(config).value();
  EXPECT_FALSE(adapter().dealloc_pd(pd).ok());
  ASSERT_TRUE(adapter().destroy_qp(qp).ok());
  EXPECT_TRUE(adapter().dealloc_pd(pd).ok());
}

TEST_F(QpLife, numbers_of_qps_are_24_bits_and_not_given_out_again_at_once) {
  AdapterLimits limits;
  limits.queue_pairs = 4;
  AdapterPair small(256, limits);
  std::set<uint32_t> used;
  for (int i = 0; i < 200; ++i) {
    QueuePair* qp = small.make_qp(0, {});
    const uint32_t number = small.side(0).adapter->qpn(*qp).value();
    EXPECT_GT(number, kQpnGsi.value());
    EXPECT_LE(number, kQpnMask);
    EXPECT_TRUE(used.insert(number).second) << "given out again at once";
    ASSERT_TRUE(small.side(0).adapter->destroy_qp(qp).ok());
  }
  for (int i = 0; i < 4; ++i) small.make_qp(0, {});
  QpConfig config{};
  config.pd = small.side(0).pd;
  config.send_cq = config.recv_cq = small.side(0).cq;
  EXPECT_FALSE(small.side(0).adapter->create_qp(config).ok());
}

TEST_F(QpLife, qp_1_takes_datagrams_from_anybody_with_the_right_qkey) {
  QpConfig gsi{.type = QpType::kUd};
  gsi.wanted_qpn = kQpnGsi;
  QueuePair* listener = pair.make_qp(1, gsi);
  pair.bring_up(1, *listener, gsi, Qpn(0), Lid(0), Psn(0), Psn(0));
  QueuePair* client = pair.make_qp(0, {.type = QpType::kUd});
  pair.bring_up(0, *client, {.type = QpType::kUd}, Qpn(0), Lid(0), Psn(0), Psn(0));
  ASSERT_EQ(pair.post_recv(1, *listener, 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 200);
  for (const uint32_t qkey : {AdapterPair::kQkey + 1, AdapterPair::kQkey}) {
    ASSERT_EQ(
        adapter().post_send(*client, {.wr_id = 1, .sges = {&sge, 1}, .dest = {Lid(2), kQpnGsi, qkey, {}}}),
        PostResult::kOk);
  }
  pair.run(5);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].src_lid, Lid(1));
  EXPECT_EQ(pair.side(1).completions[0].src_qpn, adapter().qpn(*client));
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropQkey), 1U);
  gsi.pd = pair.side(1).pd;
  gsi.send_cq = gsi.recv_cq = pair.side(1).cq;
  EXPECT_FALSE(adapter(1).create_qp(gsi).ok());
}

TEST_F(QpLife, a_uc_gap_drops_the_message_counts_it_and_goes_on_with_the_next) {
  auto qps = pair.connect({.type = QpType::kUc});
  for (uint64_t i = 0; i < 3; ++i)
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(4096 * static_cast<uint32_t>(i), 2048)}),
              PostResult::kOk);
  int cells = 0;
  pair.pipe.set_filter(
      [&](int, std::vector<std::byte>&) { return ++cells == 2 ? Verdict::kDrop : Verdict::kPass; });
  for (uint64_t i = 0; i < 3; ++i) {
    pair.side(0).fill(0, 1000, static_cast<uint8_t>(i));
    ASSERT_EQ(send(*qps[0], i, 1000), PostResult::kOk);
    pair.run(3);
  }
  ASSERT_EQ(pair.side(0).completions.size(), 3U);
  ASSERT_EQ(pair.side(1).completions.size(), 2U);
  EXPECT_EQ(pair.side(1).completions[0].wr_id, 0U);  // the WQE of the lost message serves the next one
  EXPECT_EQ(pair.side(1).memory[0], std::byte{1});
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U);
  EXPECT_TRUE(pair.pipe.sent_by(1).empty());
}

TEST_F(QpLife, a_unit_answers_with_ready_to_receive_first) {
  QueuePair* a = pair.make_qp(0, {});
  QueuePair* b = pair.make_qp(1, {});
  QpAttr attr;
  attr.dlid = Lid(1);
  attr.dest_qpn = adapter().qpn(*a);
  attr.sq_psn = Psn(4);
  attr.rq_psn = Psn(8);
  EXPECT_EQ(bring_up(adapter(1), *b, attr, QpState::kRtr), ModifyResult::kOk);
  EXPECT_EQ(adapter(1).query_qp(*b).state, QpState::kRtr);
  EXPECT_EQ(bring_up(adapter(1), *b, attr), ModifyResult::kOk);
  EXPECT_EQ(adapter(1).query_qp(*b).state, QpState::kRts);
}

}  // namespace
}  // namespace weft::test
