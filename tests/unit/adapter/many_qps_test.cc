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
  CompletionQueue* small = adapter(1).create_cq(2).value();
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
    while (adapter(1).poll_cq(*small, got) != 0) {
    }
  }
  EXPECT_TRUE(adapter(1).query_cq(*small).overrun);
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
    small[i] = adapter(1).create_cq(2).value();
    renew(i);
  }
  overrun(0);
  std::array<WorkCompletion, 8> got;
  while (adapter(1).poll_cq(*small[0], got) != 0) {
  }
  renew(0);
  overrun(1);
  EXPECT_EQ(adapter(1).query_qp(*far[0]).state, QpState::kRts);
}

}  // namespace
}  // namespace weft::test
