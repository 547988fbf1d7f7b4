// tests/unit/verbs/contracts_fixture.h -- QPs with the extended calls, connected with each other, and the
// posts that the tests of docs/contracts.tsv make.
#pragma once

#include <array>
#include <cstdint>
#include <thread>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {

class Contracts : public Verbs {
 protected:
  /// An RC QP with the extended calls, of `wrs` places each way.
  ibv_qp* make_qp_ex(uint32_t wrs, ibv_cq* of, bool signal_all = true) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_RC;
    init.send_cq = init.recv_cq = of;
    init.cap = {wrs, wrs, 2, 2, 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;
    init.sq_sig_all = signal_all ? 1 : 0;
    ibv_qp* qp = ibv_create_qp_ex(context, &init);
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  /// Two QPs, connected with each other.
  std::array<ibv_qp*, 2> connected(uint32_t wrs, ibv_cq* of, bool signal_all = true) {
    const std::array two{make_qp_ex(wrs, of, signal_all), make_qp_ex(wrs, of, signal_all)};
    bring_up(two[0], two[1]->qp_num);
    bring_up(two[1], two[0]->qp_num);
    return two;
  }
  /// Gives each of two connected QPs an alternate path, and waits until both ends are armed.
  void give_alternate(std::array<ibv_qp*, 2> two, const ibv_ah_attr& of_first, const ibv_ah_attr& of_second) {
    for (size_t i = 0; i < two.size(); ++i) {
      ibv_qp_attr attr{};
      attr.alt_ah_attr = i == 0 ? of_first : of_second;
      attr.alt_port_num = 1;
      attr.alt_timeout = 15;
      attr.path_mig_state = IBV_MIG_REARM;
      ASSERT_EQ(ibv_modify_qp(two[i], &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
    }
    for (int round = 0; round < 2; ++round) {  // an end is armed when cells have gone each way
      for (ibv_qp* qp : two) {
        ASSERT_EQ(post_write(qp, 1), 0);
        take_good(qp->send_cq, 1);
      }
    }
    for (ibv_qp* qp : two) {
      ibv_qp_attr now{};
      ibv_qp_init_attr init{};
      ASSERT_EQ(ibv_query_qp(qp, &now, IBV_QP_PATH_MIG_STATE, &init), 0);
      ASSERT_EQ(now.path_mig_state, IBV_MIG_ARMED);
    }
  }
  static void end(std::array<ibv_qp*, 2> two) {
    for (ibv_qp* qp : two) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  [[nodiscard]] uint64_t at(size_t offset) const {
    return reinterpret_cast<uint64_t>(memory.data()) + offset;
  }
  /// A write of eight bytes within the memory; the answer of ibv_post_send().
  int post_write(ibv_qp* qp, uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED, uint64_t to = 4096) {
    ibv_sge from = sge(0, 8);
    ibv_send_wr wr{.wr_id = wr_id, .sg_list = &from, .num_sge = 1};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = at(to);
    wr.wr.rdma.rkey = mr->rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  int post_message(ibv_qp* qp, uint64_t wr_id) {
    ibv_sge from = sge(0, 8);
    ibv_send_wr wr{.wr_id = wr_id, .sg_list = &from, .num_sge = 1};
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp, &wr, &bad);
  }
  template <class Queue, class Post>
  int post_receive(Queue* queue, Post post) {
    ibv_sge to = sge(1024, 8);
    ibv_recv_wr wr{.wr_id = 7, .sg_list = &to, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return post(queue, &wr, &bad);
  }
  static void add_write(ibv_qp_ex* wr, uint64_t id, uint32_t rkey, uint64_t to, uint64_t value) {
    wr->wr_id = id;
    wr->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(wr, rkey, to);
    ibv_wr_set_inline_data(wr, &value, sizeof value);
  }
  /// `count` completions, all good.
  static void take_good(ibv_cq* of, uint32_t count) {
    for (uint32_t i = 0; i < count;) {
      ibv_wc wc{};
      const int got = ibv_poll_cq(of, 1, &wc);
      ASSERT_GE(got, 0);
      if (got == 1) {
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
      }
      i += static_cast<uint32_t>(got);
    }
  }
  static void wait_until_written(const char* byte) {
    while (__atomic_load_n(byte, __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  }
};

}  // namespace weft::test
