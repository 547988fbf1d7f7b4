// Eight threads of one program make every kind of call at once: each has objects of its own, which come and
// go, in a context, a domain and a completion channel that all share.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 12;
constexpr uint32_t kBytes = 64;

class VerbsThreads : public Verbs {
 protected:
  /// One thread's round: two queue pairs talk to each other. Counts what went as it should.
  void talk(uint32_t seed) {
    std::vector<char> own(2 * kBytes);
    ibv_mr* region = ibv_reg_mr(pd, own.data(), own.size(), kAllRights);
    ibv_cq* queue = ibv_create_cq(context, 16, this, channel, 0);
    ASSERT_TRUE(region != nullptr && queue != nullptr);
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.send_cq = init.recv_cq = queue;
    std::array<ibv_qp*, 2> pair{};
    for (ibv_qp*& qp : pair) qp = ibv_create_qp(pd, &init);
    ASSERT_TRUE(pair[0] != nullptr && pair[1] != nullptr);
    bring_up(pair[0], pair[1]->qp_num);
    bring_up(pair[1], pair[0]->qp_num);
    std::memset(own.data(), static_cast<int>(seed % 256), kBytes);
    EXPECT_EQ(ibv_req_notify_cq(queue, 0), 0);
    send(*region, own.data(), *pair[0], *pair[1]);
    ibv_wc got{};
    for (int left = 2; left > 0;) {
      const int found = ibv_poll_cq(queue, 1, &got);
      ASSERT_GE(found, 0);
      EXPECT_EQ(got.status, IBV_WC_SUCCESS);
      left -= found;
    }
    if (std::memcmp(own.data(), &own[kBytes], kBytes) == 0) ++right;
    ask(*pair[0]);
    acknowledge_events();
    for (ibv_qp* qp : pair) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    retired_lock.lock();
    retired.push_back(queue);  // its event may be in the hands of another thread
    retired_lock.unlock();
  }
  static void send(const ibv_mr& region, char* data, ibv_qp& from, ibv_qp& to) {
    ibv_sge into{.addr = reinterpret_cast<uint64_t>(data) + kBytes, .length = kBytes, .lkey = region.lkey};
    ibv_recv_wr recv{.wr_id = 1, .sg_list = &into, .num_sge = 1};
    ibv_recv_wr* bad_recv = nullptr;
    ASSERT_EQ(ibv_post_recv(&to, &recv, &bad_recv), 0);
    ibv_sge out{.addr = reinterpret_cast<uint64_t>(data), .length = kBytes, .lkey = region.lkey};
    ibv_send_wr wr{.wr_id = 2, .sg_list = &out, .num_sge = 1};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(&from, &wr, &bad), 0);
  }
  /// Calls that change nothing, and objects that nobody uses.
  void ask(ibv_qp& qp) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    ibv_port_attr port;
    ibv_device_attr device;
    EXPECT_EQ(ibv_query_qp(&qp, &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    EXPECT_EQ(ibv_query_device(context, &device), 0);
    ibv_ah_attr to{.dlid = own_lid(), .port_num = 1};
    ibv_ah* address = ibv_create_ah(pd, &to);
    ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    ibv_srq_init_attr shared{.attr = {.max_wr = 4, .max_sge = 1}};
    ibv_srq* srq = ibv_create_srq(pd, &shared);
    ASSERT_TRUE(address != nullptr && window != nullptr && srq != nullptr);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(ibv_destroy_ah(address), 0);
    attr.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(ibv_modify_qp(&qp, &attr, IBV_QP_STATE), 0);
  }
  /// Those of whichever thread; the channel does not wait.
  void acknowledge_events() {
    ibv_cq* told = nullptr;
    void* user = nullptr;
    while (ibv_get_cq_event(channel, &told, &user) == 0) {
      EXPECT_EQ(user, this);
      ibv_ack_cq_events(told, 1);
      ++events;
    }
  }

  std::atomic<int> right{0};
  std::atomic<int> events{0};
  std::mutex retired_lock;
  std::vector<ibv_cq*> retired;
};

TEST_F(VerbsThreads, eight_make_every_call_at_once) {
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i] {
      for (uint32_t round = 0; round < kRounds; ++round) talk(i * kRounds + round + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  acknowledge_events();
  EXPECT_EQ(right, kThreads * kRounds);
  EXPECT_EQ(events, kThreads * kRounds) << "each queue was armed once";
  for (ibv_cq* queue : retired) EXPECT_EQ(ibv_destroy_cq(queue), 0);
}

}  // namespace
}  // namespace weft::test
