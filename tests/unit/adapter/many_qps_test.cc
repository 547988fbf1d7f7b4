// What concerns all QPs of an adapter at once: when it may sleep, and a completion queue that runs over.
#include <gtest/gtest.h>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class ManyQps : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  SendRequest request(SendOpcode opcode, const Sge& sge, uint32_t flags = 0) {
    return {.opcode = opcode,
            .flags = flags,
            .sges = {&sge, 1},
            .remote_addr = pair.side(1).region.addr,
            .rkey = pair.side(1).region.rkey};
  }
  int64_t count_events(int index, AsyncEventKind kind) {
    int64_t count = 0;
    for (AsyncEvent event; adapter(index).next_event(event);) count += event.kind == kind ? 1 : 0;
    return count;
  }
  AdapterPair pair;
};

TEST_F(ManyQps, that_wait_for_acknowledgements_let_the_adapter_sleep) {
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kDrop : Verdict::kPass; });
  const QpAttr attr{.ack_timeout = 10s};
  const Sge sge = pair.side(0).sge(0, 64);
  for (int i = 0; i < 200; ++i) {
    const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1}, attr);
    ASSERT_EQ(adapter().post_send(*qps[0], request(SendOpcode::kRdmaRead, sge)), PostResult::kOk);
    ASSERT_EQ(adapter().post_send(*qps[0], request(SendOpcode::kSend, sge, kSendFence)), PostResult::kOk);
  }
  pair.run(50);
  EXPECT_GT(adapter().deadline(), pair.clock.now());
}

/// Credit comes with cells; after the turn that took them nothing else may come for a long time.
TEST_F(ManyQps, that_wait_for_credit_go_on_in_the_turn_that_brings_it) {
  const QpAttr attr{.ack_timeout = 10s};
  const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1}, attr);
  pair.pipe.set_room(0, 0);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], request(SendOpcode::kRdmaWrite, sge)), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), 0U);
  pair.pipe.set_room_with_arrivals(0, 8);
  pair.pipe.inject(0, std::vector<std::byte>(40));  // any cell will do
  pair.run_one(0);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), 1U);
}

TEST_F(ManyQps, that_wait_for_credit_let_the_adapter_sleep_and_all_go_on_with_it) {
  pair.pipe.set_room(0, 0);
  const QpAttr attr{.ack_timeout = 10s};
  const Sge sge = pair.side(0).sge(0, 64);
  for (int i = 0; i < 200; ++i) {
    const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1}, attr);
    ASSERT_EQ(adapter().post_send(*qps[0], request(SendOpcode::kRdmaWrite, sge)), PostResult::kOk);
  }
  pair.run(50);
  EXPECT_GT(adapter().deadline(), pair.clock.now());
  pair.pipe.set_room(0, UINT32_MAX);
  for (int turns = 0; turns < 20; ++turns) {
    pair.run_one(0);
    if (adapter().deadline() > pair.clock.now()) break;  // it sleeps: nobody wakes it but an answer
  }
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), 200U);
}

/// What waits for credit costs a turn one look at the lane, not one at each QP.
TEST_F(ManyQps, that_wait_for_credit_are_not_looked_at_until_there_is_some) {
  const Sge sge = pair.side(0).sge(0, 64);
  const QpAttr attr{.ack_timeout = 10s};
  std::array<std::array<QueuePair*, 2>, 300> qps;
  for (auto& both : qps) both = pair.connect({.send_wqes = 4, .recv_wqes = 1}, attr);
  pair.pipe.set_room(0, 0);
  pair.pipe.set_room(1, 0);
  for (const auto& both : qps) {
    ASSERT_EQ(adapter().post_send(*both[0], request(SendOpcode::kRdmaWrite, sge)), PostResult::kOk);
  }
  pair.run_one(0);
  const uint64_t before = pair.pipe.claims(0);
  for (int turn = 0; turn < 100; ++turn) pair.run_one(0);
  EXPECT_LE(pair.pipe.claims(0), before + 100);
  // The same for acknowledgements: data comes, and the answers find no credit.
  pair.pipe.set_room(0, UINT32_MAX);
  for (int turn = 0; turn < 20; ++turn) pair.run_one(0);
  pair.run_one(1);
  for (int turn = 0; turn < 20; ++turn) pair.run_one(1);
  const uint64_t acks = pair.pipe.claims(1);
  for (int turn = 0; turn < 100; ++turn) pair.run_one(1);
  EXPECT_LE(pair.pipe.claims(1), acks + 100);
  pair.pipe.set_room(1, UINT32_MAX);
  pair.run(40);
  EXPECT_EQ(pair.side(0).completions.size(), qps.size());
}

/// One cell of credit at a time: everybody has a turn, in the order of asking.
TEST_F(ManyQps, that_wait_for_credit_get_it_in_turn) {
  const Sge sge = pair.side(0).sge(0, 64);
  const QpAttr attr{.ack_timeout = 10s};
  std::array<std::array<QueuePair*, 2>, 100> qps;
  for (auto& both : qps) both = pair.connect({.send_wqes = 4, .recv_wqes = 1}, attr);
  pair.pipe.set_room(0, 0);
  for (const auto& both : qps) {
    ASSERT_EQ(adapter().post_send(*both[0], request(SendOpcode::kRdmaWrite, sge)), PostResult::kOk);
  }
  pair.run_one(0);
  for (size_t sent = 1; sent <= qps.size(); ++sent) {
    pair.pipe.set_room(0, 1);
    pair.run_one(0);
    ASSERT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), sent);
  }
}

/// Ten thousand queue pairs of one adapter: all of them send, the port goes and comes back, all of them send
/// again, and a completion queue that runs over ends them all.
TEST(TenThousandQps, work_outlive_their_port_and_end_together) {
  AdapterPair pair;
  constexpr size_t kQps = 10'000;
  ChannelAdapter& near = *pair.side(0).adapter;
  ASSERT_GE(near.limits().queue_pairs, kQps);
  CompletionQueue* cq = near.cqs().create(8192).value();
  const QpConfig config{.send_cq = cq, .recv_cq = cq, .send_wqes = 2, .recv_wqes = 1, .sges = 1};
  const QpConfig far{.send_wqes = 1, .recv_wqes = 1, .sges = 1};
  std::vector<QueuePair*> qps(kQps);
  for (QueuePair*& qp : qps) {
    qp = pair.make_qp(0, config);
    QueuePair* peer = pair.make_qp(1, far);
    pair.bring_up(0, *qp, config, pair.side(1).adapter->qpn(*peer), Lid(2), Psn(1), Psn(2),
                  {.ack_timeout = 10s});
    pair.bring_up(1, *peer, far, near.qpn(*qp), Lid(1), Psn(2), Psn(1));
  }
  const Sge sge = pair.side(0).sge(0, 64);
  const SendRequest request{.opcode = SendOpcode::kRdmaWrite,
                            .sges = {&sge, 1},
                            .remote_addr = pair.side(1).region.addr,
                            .rkey = pair.side(1).region.rkey};
  const auto send_all = [&] {
    for (QueuePair* qp : qps) ASSERT_EQ(near.post_send(*qp, request), PostResult::kOk);
  };
  uint64_t completed = 0;
  const auto run_until = [&](uint64_t wanted) {
    std::array<WorkCompletion, 64> got;
    for (int turns = 0; turns < 3000 && completed < wanted; ++turns) {
      pair.run(1);
      pair.pipe.clear_trace();
      while (const uint32_t count = near.cqs().poll(*cq, got)) {
        completed += count;
        for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(got[i].status, WcStatus::kSuccess);
      }
    }
    ASSERT_EQ(completed, wanted);
  };
  send_all();
  run_until(kQps);
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  send_all();
  pair.run(300);
  pair.pipe.set_up(false);
  pair.run(1);
  pair.pipe.set_filter({});
  pair.pipe.set_up(true);
  run_until(2 * kQps);  // long before the timers of an ack_timeout of ten seconds
  send_all();           // and nobody polls: there are more completions than entries
  pair.run(600);
  for (QueuePair* qp : qps) ASSERT_EQ(near.query_qp(*qp).state, QpState::kErr);
}

/// A message whose packets fill the window goes on as they are acknowledged, not by a timer.
TEST_F(ManyQps, of_which_one_has_more_packets_than_its_window_need_no_timer_to_go_on) {
  const auto qps = pair.connect({.packet_bytes = 256});
  const Sge sge = pair.side(0).sge(0, kPairBufferBytes);
  ASSERT_EQ(adapter().post_send(*qps[0], request(SendOpcode::kRdmaWrite, sge)), PostResult::kOk);
  pair.run(200, Duration(1));
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(adapter().counters(*qps[0]).get(QpCounter::kTimeouts), 0U);
}

TEST_F(ManyQps, lose_nothing_in_silence_when_their_completion_queue_runs_over_again) {
  CompletionQueue* small = adapter(1).cqs().create(2).value();
  for (int life = 0; life < 3; ++life) {
    count_events(1, AsyncEventKind::kCqOverrun);
    QueuePair* a = pair.make_qp(0, {});
    QueuePair* b = pair.make_qp(1, {.recv_cq = small});
    pair.bring_up(0, *a, {}, adapter(1).qpn(*b), Lid(2), Psn(1), Psn(2));
    pair.bring_up(1, *b, {}, adapter(0).qpn(*a), Lid(1), Psn(2), Psn(1));
    const Sge sge = pair.side(0).sge(0, 64);
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_EQ(pair.post_recv(1, *b, i, {pair.side(1).sge(0, 256)}), PostResult::kOk);
      ASSERT_EQ(adapter().post_send(*a, request(SendOpcode::kSend, sge)), PostResult::kOk);
    }
    pair.run(5);
    EXPECT_EQ(adapter(1).query_qp(*b).state, QpState::kErr) << "life " << life;
    EXPECT_EQ(count_events(1, AsyncEventKind::kCqOverrun), 1) << "life " << life;
    std::array<WorkCompletion, 8> got;
    while (adapter(1).cqs().poll(*small, got) != 0) {
    }
  }
  EXPECT_TRUE(adapter(1).cqs().query(*small).overrun);
}

/// Most cells of such a burst have the header of the one before, but not the first one of each QP.
TEST_F(ManyQps, whose_cells_come_in_one_burst_take_each_their_own) {
  constexpr uint64_t kMessages = 3;
  std::array<std::array<QueuePair*, 2>, 4> qps{};
  for (auto& each : qps) each = pair.connect({.send_wqes = 8, .recv_wqes = 8});
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < qps.size(); ++i) {
    for (uint64_t n = 0; n < kMessages; ++n) {
      ASSERT_EQ(pair.post_recv(1, *qps[i][1], 10 * i + n, {pair.side(1).sge(0, 256)}), PostResult::kOk);
      ASSERT_EQ(adapter().post_send(*qps[i][0], request(SendOpcode::kSend, sge)), PostResult::kOk);
    }
  }
  pair.run_one(0);
  pair.run_one(1);
  ASSERT_EQ(pair.side(1).completions.size(), qps.size() * kMessages);
  std::array<uint64_t, qps.size()> got{};
  for (const WorkCompletion& each : pair.side(1).completions) {
    const uint64_t i = each.wr_id / 10;
    ASSERT_LT(i, qps.size());
    EXPECT_EQ(each.qpn, adapter(1).qpn(*qps[i][1]));
    EXPECT_EQ(each.wr_id, 10 * i + got[i]++);
  }
}

/// One that has run over before does not end the QPs that began after it was emptied.
TEST_F(ManyQps, are_failed_by_the_queue_that_runs_over_and_by_no_other) {
  std::array<QueuePair*, 2> far{};
  std::array<QueuePair*, 2> near{};
  std::array<CompletionQueue*, 2> small{};
  const auto overrun = [&](size_t i) {
    const Sge sge = pair.side(0).sge(0, 64);
    for (uint64_t n = 0; n < 4; ++n) {
      ASSERT_EQ(pair.post_recv(1, *far[i], n, {pair.side(1).sge(0, 256)}), PostResult::kOk);
      ASSERT_EQ(adapter().post_send(*near[i], request(SendOpcode::kSend, sge)), PostResult::kOk);
    }
    pair.run(5);
    ASSERT_EQ(adapter(1).query_qp(*far[i]).state, QpState::kErr);
  };
  const auto renew = [&](size_t i) {
    near[i] = pair.make_qp(0, {});
    far[i] = pair.make_qp(1, {.recv_cq = small[i]});
    pair.bring_up(0, *near[i], {}, adapter(1).qpn(*far[i]), Lid(2), Psn(1), Psn(2));
    pair.bring_up(1, *far[i], {}, adapter(0).qpn(*near[i]), Lid(1), Psn(2), Psn(1));
  };
  for (size_t i = 0; i < 2; ++i) {
    small[i] = adapter(1).cqs().create(2).value();
    renew(i);
  }
  overrun(0);
  std::array<WorkCompletion, 8> got;
  while (adapter(1).cqs().poll(*small[0], got) != 0) {
  }
  renew(0);
  overrun(1);
  EXPECT_EQ(adapter(1).query_qp(*far[0]).state, QpState::kRts);
}

}  // namespace
}  // namespace weft::test
