// A program that waits for seconds is told what it waits for, once (WEFT_DEBUG=verbs). Waits run side by
// side, because a line comes after 2 s.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LongWait : public Verbs {
 protected:
  /// What is said while a program polls empty queues.
  static std::string said_while_polling(const std::vector<ibv_cq*>& queues) {
    ::testing::internal::CaptureStderr();
    ibv_wc wc{};
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2300);
    while (std::chrono::steady_clock::now() < until) {
      for (ibv_cq* queue : queues) EXPECT_EQ(ibv_poll_cq(queue, 1, &wc), 0);
    }
    return ::testing::internal::GetCapturedStderr();
  }
  /// An RDMA write of no bytes to the QP itself.
  void write(ibv_qp* qp, unsigned flags) const {
    ibv_send_wr wr{.opcode = IBV_WR_RDMA_WRITE, .send_flags = flags};
    wr.wr.rdma.rkey = mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  static size_t lines_in(const std::string& text) {
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

TEST_F(LongWait, a_request_that_was_not_signalled_and_a_queue_without_a_pair_are_named) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_cq* lonely = ibv_create_cq(context, 8, nullptr, nullptr, 0);
  write(qp, 0);
  const std::string said = said_while_polling({cq, lonely});
  EXPECT_THAT(said, HasSubstr(" (RTS): 1 send request has ended without IBV_SEND_SIGNALED and gives no"));
  EXPECT_THAT(said, HasSubstr("nothing can complete here"));
  EXPECT_THAT(said, HasSubstr("no QP has it as send_cq or recv_cq"));
  EXPECT_EQ(lines_in(said), 2U) << said;
  EXPECT_EQ(ibv_destroy_cq(lonely), 0);
}

TEST_F(LongWait, a_posted_receive_waits_for_the_peer_and_a_signalled_request_is_no_mistake) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  write(qp, IBV_SEND_SIGNALED);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  post_recv(qp, 1, 0, 64);
  const std::string said = said_while_polling({cq});
  EXPECT_THAT(said, HasSubstr(" (RTS): 1 receive request waits for a message of the peer"));
  EXPECT_THAT(said, Not(HasSubstr("IBV_SEND_SIGNALED")));
  EXPECT_THAT(said, Not(HasSubstr("nothing can complete here")));
  EXPECT_EQ(lines_in(said), 1U) << said;
  write(qp, IBV_SEND_SIGNALED);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  post_recv(qp, 2, 64, 64);
  EXPECT_THAT(said_while_polling({cq}), HasSubstr(" (RTS): 2 receive requests wait for messages of the peer"))
      << "a completion ended the first silence";
}

/// One thread sleeps at a channel of which no queue is armed, one destroys a queue whose event was not
/// acknowledged. A third waits for an armed queue, which may be silent for hours.
TEST_F(LongWait, threads_that_sleep_for_ever_are_told_and_others_are_not) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_comp_channel* quiet = ibv_create_comp_channel(context);
  ibv_cq* armed = ibv_create_cq(context, 8, nullptr, quiet, 0);
  EXPECT_EQ(ibv_req_notify_cq(armed, 0), 0);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
  write(qp, IBV_SEND_SIGNALED);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &user), 0);
  ASSERT_EQ(told, cq);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  qps.clear();
  ibv_cq* unarmed = ibv_create_cq(context, 8, nullptr, channel, 0);
  const auto take = [](ibv_comp_channel* at) {
    ibv_cq* got = nullptr;
    void* of = nullptr;
    EXPECT_EQ(ibv_get_cq_event(at, &got, &of), 0);
    ibv_ack_cq_events(got, 1);
  };
  ::testing::internal::CaptureStderr();
  std::thread destroyer([&] { EXPECT_EQ(ibv_destroy_cq(cq), 0); });
  std::thread sleeper([&] { take(channel); });
  std::thread patient([&] { take(quiet); });
  std::this_thread::sleep_for(std::chrono::milliseconds(3000));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("no CQ of this completion channel is armed: call ibv_req_notify_cq"));
  EXPECT_THAT(said, HasSubstr("ibv_destroy_cq: waits until each event of this CQ"));
  EXPECT_EQ(lines_in(said), 2U) << said;
  ibv_ack_cq_events(told, 1);
  destroyer.join();
  EXPECT_EQ(ibv_req_notify_cq(unarmed, 0), 0);
  for (ibv_cq* to : {unarmed, armed}) {
    cq = to;
    ibv_qp* waker = make_qp(IBV_QPT_RC);
    bring_up(waker, waker->qp_num);
    write(waker, IBV_SEND_SIGNALED);
    (to == unarmed ? sleeper : patient).join();
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_destroy_qp(waker), 0);
    qps.clear();
    EXPECT_EQ(ibv_destroy_cq(to), 0);
  }
  EXPECT_EQ(ibv_destroy_comp_channel(quiet), 0);
  cq = ibv_create_cq(context, 64, this, channel, 0);
}

}  // namespace
}  // namespace weft::test
