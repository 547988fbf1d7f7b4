// Promises of the manual pages about what is in use, a second life, exact limits and what is given back.
// docs/contracts.tsv has each promise with its test.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

// ---- use and release --------------------

TEST_F(Contracts, what_is_in_use_is_not_destroyed_and_stays_usable) {
  for (int life = 0; life < 2; ++life) {
    ibv_pd* own = ibv_alloc_pd(context);
    ibv_comp_channel* told = ibv_create_comp_channel(context);
    ibv_cq* queue = ibv_create_cq(context, 16, nullptr, told, 0);
    ibv_mr* region = ibv_reg_mr(own, memory.data(), 64, kAllRights | IBV_ACCESS_MW_BIND);
    ASSERT_TRUE(own != nullptr && told != nullptr && queue != nullptr && region != nullptr);
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.send_cq = init.recv_cq = queue;
    ibv_qp* qp = ibv_create_qp(own, &init);
    ibv_mw* window = ibv_alloc_mw(own, IBV_MW_TYPE_1);
    ASSERT_TRUE(qp != nullptr && window != nullptr);
    EXPECT_EQ(ibv_destroy_comp_channel(told), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(queue), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(own), EBUSY);
    bring_up(qp, qp->qp_num);
    ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
    bind.bind_info = {.mr = region, .addr = at(0), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    ASSERT_EQ(ibv_bind_mw(qp, window, &bind), 0);
    ibv_wc wc{};
    while (ibv_poll_cq(queue, 1, &wc) == 0) {
    }
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_dereg_mr(region), EBUSY) << "a window is bound to it";
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(queue), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(told), 0);
    EXPECT_EQ(ibv_dealloc_pd(own), 0);
  }
}

/// A window's entry goes with the window, whatever became of its binds.
TEST_F(Contracts, a_domain_is_free_after_binds_that_were_refused) {
  for (int life = 0; life < 300; ++life) {
    ibv_pd* own = ibv_alloc_pd(context);
    ibv_mr* region = ibv_reg_mr(own, memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ibv_mw* window = ibv_alloc_mw(own, life % 2 == 0 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    ASSERT_TRUE(own != nullptr && region != nullptr && window != nullptr);
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    ibv_qp* qp = ibv_create_qp(own, &init);
    bring_up(qp, qp->qp_num);
    // More than the region has, or beyond it.
    const uint64_t length = life % 4 < 2 ? 65 : 8;
    const unsigned access = life % 8 < 4 ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    ibv_mw_bind_info info{.mr = region, .addr = at(0), .length = length, .mw_access_flags = access};
    if (window->type == IBV_MW_TYPE_1) {
      ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
      for (int i = 0; i < 3; ++i) EXPECT_EQ(ibv_bind_mw(qp, window, &bind), 0);
      for (int i = 0; i < 3; ++i) static_cast<void>(next());
    } else {
      ibv_send_wr wr{.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
      wr.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
      ibv_send_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
      static_cast<void>(next());
    }
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    ASSERT_EQ(ibv_dealloc_pd(own), 0) << life;
  }
}

TEST_F(Contracts, device_memory_is_given_back_to_the_byte) {
  ibv_device_attr_ex device;
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &device), 0);
  ibv_alloc_dm_attr most{.length = device.max_dm_size};
  ibv_alloc_dm_attr small{.length = 64};
  for (int life = 0; life < 3; ++life) {
    ibv_dm* all = ibv_alloc_dm(context, &most);
    ASSERT_NE(all, nullptr) << "what was refused before took nothing";
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(ibv_alloc_dm(context, &small), nullptr);
      EXPECT_EQ(errno, ENOMEM);
    }
    std::array<char, 16> bytes{};
    EXPECT_EQ(ibv_memcpy_to_dm(all, 4, bytes.data(), 6), EINVAL) << "four bytes at a time";
    EXPECT_EQ(ibv_memcpy_to_dm(all, 6, bytes.data(), 4), EINVAL) << "at a multiple of four";
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), all, 4, 6), EINVAL);
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), all, device.max_dm_size - 16, 16), 0);
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), all, device.max_dm_size - 12, 16), EINVAL);
    EXPECT_EQ(ibv_free_dm(all), 0);
  }
}

TEST_F(Contracts, prefetch_for_writing_needs_the_right_to_write) {
  constexpr int kRead = IBV_ACCESS_ON_DEMAND;
  ibv_mr* read = ibv_reg_mr(pd, memory.data(), memory.size(), kRead);
  constexpr int kWritten = int{IBV_ACCESS_ON_DEMAND} | int{IBV_ACCESS_LOCAL_WRITE};
  ibv_mr* written = ibv_reg_mr(pd, memory.data(), memory.size(), kWritten);
  ASSERT_TRUE(read != nullptr && written != nullptr);
  ibv_sge range = sge(0, 64);
  range.lkey = read->lkey;
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), 0);
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &range, 1), EPERM);
  range.lkey = written->lkey;
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &range, 1), 0);
  EXPECT_EQ(ibv_dereg_mr(read), 0);
  EXPECT_EQ(ibv_dereg_mr(written), 0);
}

TEST_F(Contracts, the_limit_of_a_shared_queue_is_told_once_and_then_disarmed) {
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  const auto events = [&] {
    int count = 0;
    ibv_async_event event{};
    while (ibv_get_async_event(context, &event) == 0) {
      count += event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED ? 1 : 0;
      ibv_ack_async_event(&event);
    }
    return count;
  };
  for (int life = 0; life < 2; ++life) {
    for (int i = 0; i < 2 - life * 2; ++i) EXPECT_EQ(post_receive(srq, ibv_post_srq_recv), 0);
    ibv_srq_attr attr{};
    attr.srq_limit = 2;
    ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(events(), 0) << "two wait";
    attr.srq_limit = 3;
    ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(events(), 1) << "fewer than three wait";
    ASSERT_EQ(ibv_query_srq(srq, &attr), 0);
    EXPECT_EQ(attr.srq_limit, 0U);
    EXPECT_EQ(events(), 0);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Contracts, a_request_of_xrc_is_built_with_its_queue_whose_places_outlive_the_target) {
  ibv_xrcd_init_attr domain_attr{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
  ibv_xrcd* domain = ibv_open_xrcd(context, &domain_attr);
  ASSERT_NE(domain, nullptr);
  ibv_cq* received = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_srq_init_attr_ex srq_attr{.attr = {.max_wr = 2, .max_sge = 1},
                                .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                                             IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
                                .srq_type = IBV_SRQT_XRC,
                                .pd = pd,
                                .xrcd = domain,
                                .cq = received};
  ibv_srq* srq = ibv_create_srq_ex(context, &srq_attr);
  ASSERT_NE(srq, nullptr);
  uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
  ibv_qp_init_attr_ex target_attr{
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
  ibv_qp* target = ibv_create_qp_ex(context, &target_attr);
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_SEND;
  init.send_cq = cq;
  init.cap = {4, 0, 1, 0, 0};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  ibv_qp* from = ibv_create_qp_ex(context, &init);
  ASSERT_TRUE(target != nullptr && from != nullptr);
  bring_up(from, target->qp_num);
  bring_up(target, from->qp_num);
  const auto receive = [&] { return post_receive(srq, ibv_post_srq_recv); };
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(receive(), 0);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(from);
  for (uint64_t i = 0; i < 2; ++i) {
    ibv_wr_start(wr);
    wr->wr_id = i;
    wr->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(wr);
    ibv_wr_set_xrc_srqn(wr, number);
    ibv_wr_set_sge(wr, mr->lkey, at(0), 8);
    ASSERT_EQ(ibv_wr_complete(wr), 0);
    EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(receive(), ENOMEM);
  take_good(received, 2);
  EXPECT_EQ(receive(), 0);
  EXPECT_EQ(receive(), 0);
  EXPECT_EQ(ibv_destroy_qp(from), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(received), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

TEST_F(Contracts, of_two_threads_that_wait_one_gets_the_event) {
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  const auto reach_limit = [&] {
    ibv_srq_attr attr{};
    attr.srq_limit = 1;
    ASSERT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
  };
  std::atomic<int> got{0};
  const auto wait = [&] {
    ibv_async_event event{};
    do {
      ASSERT_EQ(ibv_get_async_event(context, &event), 0);
      ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
    ++got;
  };
  std::thread one(wait);
  std::thread other(wait);
  reach_limit();
  while (got == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(got, 1);
  reach_limit();
  one.join();
  other.join();
  EXPECT_EQ(got, 2);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// The library takes 16 from its queue at a time: as many in one call, one less, one more, and twice as many.
TEST_F(Contracts, one_poll_takes_as_many_as_it_has_room_for) {
  constexpr int kWaiting = 40;
  for (const int room : {15, 16, 17, 32, 33, kWaiting, kWaiting + 1}) {
    ibv_qp* qp = make_qp_ex(kWaiting, cq);
    for (int i = 0; i < kWaiting; ++i) {
      ibv_recv_wr wr{.wr_id = static_cast<uint64_t>(i)};
      ibv_recv_wr* bad = nullptr;
      ibv_qp_attr init{.qp_state = IBV_QPS_INIT, .port_num = 1};
      if (i == 0) {
        const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        ASSERT_EQ(ibv_modify_qp(qp, &init, mask), 0);
      }
      ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    }
    ibv_qp_attr error{.qp_state = IBV_QPS_ERR};
    ASSERT_EQ(ibv_modify_qp(qp, &error, IBV_QP_STATE), 0);
    std::vector<ibv_wc> taken(kWaiting + 1);
    const int first = std::min(room, kWaiting);
    ASSERT_EQ(ibv_poll_cq(cq, room, taken.data()), first);
    for (int i = 0; i < first; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)].wr_id, static_cast<uint64_t>(i));
    EXPECT_EQ(ibv_poll_cq(cq, kWaiting + 1, taken.data()), kWaiting - first);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
}

/// The second life of a QP tells nothing of the first.
TEST_F(Contracts, a_reset_qp_tells_what_a_new_one_does) {
  const auto told = [](ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
  };
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  const ibv_qp_attr fresh = told(qp);
  for (int life = 0; life < 2; ++life) {
    bring_up(qp, qp->qp_num);
    EXPECT_EQ(told(qp).path_mtu, IBV_MTU_256);
    ibv_qp_attr reset{.qp_state = IBV_QPS_RESET};
    ASSERT_EQ(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
    const ibv_qp_attr again = told(qp);
    EXPECT_EQ(again.path_mtu, fresh.path_mtu);
    EXPECT_EQ(again.timeout, fresh.timeout);
    EXPECT_EQ(again.ah_attr.dlid, fresh.ah_attr.dlid);
    EXPECT_EQ(again.dest_qp_num, fresh.dest_qp_num);
    EXPECT_EQ(again.qp_access_flags, fresh.qp_access_flags);
    EXPECT_EQ(again.max_rd_atomic, fresh.max_rd_atomic);
    EXPECT_EQ(again.max_dest_rd_atomic, fresh.max_dest_rd_atomic);
    EXPECT_EQ(again.rq_psn, fresh.rq_psn);
  }
}

}  // namespace
}  // namespace weft::test
