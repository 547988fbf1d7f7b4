// What the manual pages of libibverbs promise beside what a call does: who is kept out while another thread
// is between two calls, all or nothing, when the place of a request comes free, what the program's own
// structs say. docs/contracts.tsv has each promise with its test.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

// ---- ibv_wr_post(3) --------------------

TEST_F(Contracts, batches_of_two_threads_on_one_qp_are_kept_apart) {
  constexpr uint32_t kEach = 5000;
  ibv_cq* own = ibv_create_cq(context, 512, nullptr, nullptr, 0);
  const auto two = connected(64, own);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  std::vector<std::atomic<uint32_t>> seen(2 * kEach);
  std::atomic<uint32_t> taken{0};
  std::atomic<bool> wrong{false};
  const auto drain = [&] {
    std::array<ibv_wc, 16> got{};
    const int n = ibv_poll_cq(own, static_cast<int>(got.size()), got.data());
    for (int i = 0; i < n; ++i) {
      const ibv_wc& wc = got[static_cast<size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id >= seen.size()) wrong = true;
      if (wc.wr_id < seen.size()) ++seen[wc.wr_id];
      ++taken;
    }
  };
  const auto post = [&](uint32_t first) {
    for (uint32_t i = 0; i < kEach && !wrong;) {
      ibv_wr_start(wr);
      add_write(wr, first + i, mr->rkey, at(first != 0 ? 8 : 0), first + i);
      const int fault = ibv_wr_complete(wr);
      if (fault == 0) ++i;
      if (fault != 0 && fault != ENOMEM) wrong = true;
      drain();
    }
  };
  std::thread one(post, 0);
  std::thread other(post, kEach);
  one.join();
  other.join();
  while (taken < 2 * kEach && !wrong) drain();
  EXPECT_FALSE(wrong);
  for (const auto& times : seen) ASSERT_EQ(times, 1U);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, a_list_of_requests_waits_until_the_batch_of_another_thread_has_ended) {
  for (const bool aborts : {false, true}) {
    const auto two = connected(8, cq);
    ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
    std::memset(memory.data(), 0, memory.size());
    memory[0] = 'x';
    ibv_wr_start(wr);
    add_write(wr, 1, mr->rkey, at(2048), 1);
    std::latch begun(1);
    std::atomic<bool> posted{false};
    std::thread other([&] {
      begun.count_down();
      EXPECT_EQ(post_write(two[0], 2), 0);
      posted = true;
    });
    begun.wait();
    std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(posted);
    if (aborts) {
      ibv_wr_abort(wr);
    } else {
      EXPECT_EQ(ibv_wr_complete(wr), 0);
    }
    other.join();
    if (!aborts) {
      EXPECT_EQ(next().wr_id, 1U);
    }
    EXPECT_EQ(next().wr_id, 2U);
    EXPECT_EQ(memory[2048] != 0, !aborts) << "nothing of an aborted batch is executed";
    end(two);
  }
}

TEST_F(Contracts, a_batch_that_fails_posts_nothing_and_the_next_one_all) {
  const auto two = connected(2, cq);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  std::memset(memory.data(), 0, 64);
  for (const uint64_t requests : {uint64_t{3}, uint64_t{2}}) {
    ibv_wr_start(wr);
    for (uint64_t i = 0; i < requests; ++i)
      add_write(wr, i, mr->rkey, at(8 * i), 0x1111'1111'1111'1111U * (i + 1));
    if (requests == 3) {
      EXPECT_EQ(ibv_wr_complete(wr), ENOMEM);
      for (size_t i = 0; i < 24; ++i) EXPECT_EQ(memory[i], 0);
    } else {
      ASSERT_EQ(ibv_wr_complete(wr), 0);
    }
  }
  EXPECT_EQ(next().wr_id, 0U) << "of the batch that failed nothing has completed";
  EXPECT_EQ(next().wr_id, 1U);
  EXPECT_EQ(memory[0], 0x11);
  EXPECT_EQ(memory[8], 0x22);
  EXPECT_EQ(memory[16], 0);
  // A call that cannot be fails the batch as well, also its good requests.
  ibv_wr_start(wr);
  add_write(wr, 5, mr->rkey, at(16), 1);
  std::array<char, 256> much{};
  wr->wr_id = 6;
  ibv_wr_rdma_write(wr, mr->rkey, at(32));
  ibv_wr_set_inline_data(wr, much.data(), much.size());
  ibv_wr_send_tso(wr, much.data(), 8, 8);
  EXPECT_EQ(ibv_wr_complete(wr), EOPNOTSUPP);
  // The first fault is told.
  ibv_wr_start(wr);
  ibv_wr_set_sge(wr, mr->lkey, at(0), 8);
  ibv_wr_send_tso(wr, much.data(), 8, 8);
  EXPECT_EQ(ibv_wr_complete(wr), EINVAL) << "a segment of no request";
  ASSERT_EQ(post_write(two[0], 9), 0);
  EXPECT_EQ(next().wr_id, 9U);
  EXPECT_EQ(memory[16], 0);
  end(two);
}

TEST_F(Contracts, nothing_of_a_batch_is_executed_before_it_is_complete) {
  const auto two = connected(8, cq);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  std::memset(memory.data(), 0, 64);
  ibv_wr_start(wr);
  add_write(wr, 1, mr->rkey, at(8), 1);
  // Another QP's request passes it.
  ASSERT_EQ(post_write(two[1], 2), 0);
  EXPECT_EQ(next().wr_id, 2U);
  EXPECT_EQ(memory[8], 0);
  ASSERT_EQ(ibv_wr_complete(wr), 0);
  EXPECT_EQ(next().wr_id, 1U);
  EXPECT_EQ(memory[8], 1);
  end(two);
}

TEST_F(Contracts, a_qp_of_a_thread_domain_has_no_lock) {
  ibv_td_init_attr none{};
  ibv_td* td = ibv_alloc_td(context, &none);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr init{.pd = pd, .td = td};
  ibv_pd* parent = ibv_alloc_parent_domain(context, &init);
  ASSERT_NE(parent, nullptr);
  ibv_pd* const whole = std::exchange(pd, parent);
  const auto two = connected(4, cq);
  pd = whole;
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  ibv_wr_start(wr);
  add_write(wr, 1, mr->rkey, at(8), 1);
  EXPECT_EQ(post_write(two[0], 2), 0) << "with a lock it would wait for itself";
  EXPECT_EQ(next().wr_id, 2U);
  EXPECT_EQ(ibv_wr_complete(wr), 0);
  EXPECT_EQ(next().wr_id, 1U);
  end(two);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

// ---- ibv_create_cq_ex(3) --------------------

TEST_F(Contracts, an_entry_of_an_extended_cq_stays_while_one_thread_reads_it) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = ibv_cq_ex_to_cq(ex);
  const auto two = connected(8, plain);
  for (uint64_t id = 100; id < 103; ++id) ASSERT_EQ(post_write(two[0], id), 0);
  ibv_poll_cq_attr none{};
  while (ibv_start_poll(ex, &none) != 0) {
  }
  EXPECT_EQ(ex->wr_id, 100U);
  std::latch begun(2);
  std::atomic<uint32_t> passed{0};
  std::vector<uint64_t> seen;
  std::thread by_fields([&] {
    begun.count_down();
    ibv_poll_cq_attr mine{};
    while (ibv_start_poll(ex, &mine) != 0) {
    }
    ++passed;
    seen.push_back(ex->wr_id);
    ibv_end_poll(ex);
  });
  std::thread by_entries([&] {
    begun.count_down();
    ibv_wc wc{};
    while (ibv_poll_cq(plain, 1, &wc) == 0) {
    }
    ++passed;
  });
  begun.wait();
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(passed, 0U) << "both wait for ibv_end_poll()";
  EXPECT_EQ(ex->wr_id, 100U);
  ibv_end_poll(ex);
  by_fields.join();
  by_entries.join();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_GT(seen[0], 100U);
  // A poll that finds nothing has not begun: it is not ended, and keeps nobody out.
  EXPECT_EQ(ibv_start_poll(ex, &none), ENOENT);
  ibv_wc wc{};
  EXPECT_EQ(ibv_poll_cq(plain, 1, &wc), 0);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(plain), 0);
}

TEST_F(Contracts, a_cq_of_one_thread_has_no_lock) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = ibv_cq_ex_to_cq(ex);
  const auto two = connected(8, plain);
  for (uint64_t id = 1; id < 3; ++id) ASSERT_EQ(post_write(two[0], id), 0);
  ibv_poll_cq_attr none{};
  while (ibv_start_poll(ex, &none) != 0) {
  }
  ibv_wc wc{};
  while (ibv_poll_cq(plain, 1, &wc) == 0) {  // would wait for itself
  }
  EXPECT_EQ(wc.wr_id, 2U);
  ibv_end_poll(ex);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(plain), 0);
}

// ---- ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3) --------------------

TEST_F(Contracts, the_place_of_a_request_comes_free_when_its_completion_is_polled) {
  ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  const auto two = connected(8, own);
  for (int round = 0; round < 3; ++round) {
    std::memset(memory.data(), 0, memory.size());
    memory[0] = 'x';
    for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(post_write(two[0], i, IBV_SEND_SIGNALED, 4096 + 8 * i), 0);
    wait_until_written(&memory[4096 + 56]);
    EXPECT_EQ(post_write(two[0], 8), ENOMEM) << "all have been executed, and none polled";
    take_good(own, 1);
    EXPECT_EQ(post_write(two[0], 8), 0) << "one place";
    EXPECT_EQ(post_write(two[0], 9), ENOMEM) << "and no more";
    take_good(own, 8);
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(own, 1, &wc), 0);
  }
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, requests_without_completion_give_their_places_back_with_the_next_that_has_one) {
  ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  const auto two = connected(4, own, false);
  for (int round = 0; round < 5; ++round) {
    for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_write(two[0], i, 0), 0);
    ASSERT_EQ(post_write(two[0], 3, IBV_SEND_SIGNALED), 0);
    EXPECT_EQ(post_write(two[0], 4, IBV_SEND_SIGNALED), ENOMEM);
    take_good(own, 1);
  }
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, a_flushed_queue_has_its_places_again_when_all_is_polled) {
  ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  const auto two = connected(4, own, false);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_STATE), 0);
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post_write(two[0], i, 0), 0);
    EXPECT_EQ(post_write(two[0], 4, 0), ENOMEM);
    for (uint64_t i = 0; i < 4; ++i) {
      ibv_wc wc{};
      ASSERT_EQ(ibv_poll_cq(own, 1, &wc), 1);
      EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
      EXPECT_EQ(wc.wr_id, i);
    }
  }
  // The next life begins with all of them, though entries of this one were not polled.
  ASSERT_EQ(post_write(two[0], 1, 0), 0);
  attr.qp_state = IBV_QPS_RESET;
  for (ibv_qp* qp : two) ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  bring_up(two[0], two[1]->qp_num);
  bring_up(two[1], two[0]->qp_num);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(post_write(two[0], i), 0);
  EXPECT_EQ(post_write(two[0], 4), ENOMEM);
  take_good(own, 4);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, the_place_of_a_receive_comes_free_when_its_completion_is_polled) {
  ibv_cq* own = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  const auto two = connected(2, own);
  const auto receive = [&] { return post_receive(two[1], ibv_post_recv); };
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(receive(), 0);
    ASSERT_EQ(receive(), 0);
    EXPECT_EQ(receive(), ENOMEM);
    ASSERT_EQ(post_message(two[0], 1), 0);
    ASSERT_EQ(post_message(two[0], 2), 0);
    std::array<ibv_wc, 4> got{};
    int taken = 0;
    while (taken < 1) taken = ibv_poll_cq(own, 1, got.data());
    EXPECT_EQ(receive(), got[0].opcode == IBV_WC_RECV ? 0 : ENOMEM);
    const bool extra = got[0].opcode == IBV_WC_RECV;
    take_good(own, 3);
    if (extra) {
      ASSERT_EQ(post_message(two[0], 3), 0);
      take_good(own, 2);
    }
  }
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, places_of_a_shared_queue_come_free_by_poll_and_with_the_qp_that_took_them) {
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  const auto receive = [&] { return post_receive(srq, ibv_post_srq_recv); };
  ibv_cq* received = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  for (const bool polls : {true, false, true}) {
    ibv_qp_init_attr ends = init_of(IBV_QPT_RC);
    ends.recv_cq = received;
    ibv_qp* from = ibv_create_qp(pd, &ends);
    ends.srq = srq;
    ibv_qp* to = ibv_create_qp(pd, &ends);
    bring_up(from, to->qp_num);
    bring_up(to, from->qp_num);
    ASSERT_EQ(receive(), 0);
    ASSERT_EQ(receive(), 0);
    for (uint64_t i = 0; i < 2; ++i) {
      ASSERT_EQ(post_message(from, i), 0);
      EXPECT_EQ(next().status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(receive(), ENOMEM) << "both have arrived, and nobody has polled them";
    if (polls) take_good(received, 2);
    EXPECT_EQ(ibv_destroy_qp(from), 0);
    EXPECT_EQ(ibv_destroy_qp(to), 0) << "what it received and nobody polled goes with it";
  }
  ASSERT_EQ(receive(), 0);
  ASSERT_EQ(receive(), 0);
  EXPECT_EQ(receive(), ENOMEM);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_destroy_cq(received), 0);
}

// ---- ibv_query_qp(3), ibv_get_async_event(3), ibv_get_cq_event(3) --------------------

TEST_F(Contracts, a_query_changes_the_state_in_the_struct_only_when_it_asks_for_the_state) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  qp->state = IBV_QPS_SQD;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_SQD);
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
}

TEST_F(Contracts, an_error_that_a_completion_reports_makes_no_event) {
  const auto two = connected(4, cq);
  ibv_sge from = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1, .sg_list = &from, .num_sge = 1};
  from.lkey = ~mr->lkey;
  wr.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(two[0], &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_LOC_PROT_ERR);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event{};
  while (ibv_get_async_event(context, &event) == 0) {
    EXPECT_NE(event.event_type, IBV_EVENT_QP_FATAL);
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(errno, EAGAIN);
  end(two);
}

TEST_F(Contracts, acknowledged_events_are_counted_in_the_structs_of_the_program) {
  const auto two = connected(4, cq);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(post_write(two[0], 1), 0);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &user), 0);
  EXPECT_EQ(told->comp_events_completed, 0U);
  ibv_ack_cq_events(told, 1);
  EXPECT_EQ(told->comp_events_completed, 1U);
  EXPECT_EQ(next().wr_id, 1U);

  // A queue that runs over: both objects have an event.
  ibv_cq* small = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  std::vector<ibv_qp*> many;
  for (int i = 0; i < 5; ++i) {
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.send_cq = init.recv_cq = small;
    many.push_back(ibv_create_qp(pd, &init));
    ibv_qp_attr attr{};
    bring_up(many.back(), many.back()->qp_num);
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(many.back(), &attr, IBV_QP_STATE), 0);
    for (int n = 0; n < 8; ++n) {
      static_cast<void>(post_receive(many.back(), ibv_post_recv));
    }
  }
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    const bool of_cq = event.event_type == IBV_EVENT_CQ_ERR;
    ibv_ack_async_event(&event);
    if (of_cq) break;
  } while (true);
  EXPECT_EQ(small->async_events_completed, 1U);
  for (ibv_qp* qp : many) EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
  end(two);
}

// ---- ibv_query_device(3), ibv_reg_mr(3) --------------------

TEST_F(Contracts, as_many_regions_fit_as_the_device_says) {
  ibv_device_attr limits;
  ASSERT_EQ(ibv_query_device(context, &limits), 0);
  std::vector<ibv_mr*> made;
  while (made.size() + 1 < static_cast<size_t>(limits.max_mr)) {
    ibv_mr* one = ibv_reg_mr(pd, memory.data(), 64, kAllRights);
    if (one == nullptr) break;
    made.push_back(one);
  }
  EXPECT_EQ(made.size() + 1, static_cast<size_t>(limits.max_mr)) << "with that of the fixture";
  EXPECT_EQ(ibv_reg_mr(pd, memory.data(), 64, kAllRights), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (ibv_mr* one : made) ASSERT_EQ(ibv_dereg_mr(one), 0);
}

TEST_F(Contracts, one_key_of_a_region_serves_its_owner_and_its_peers) {
  EXPECT_EQ(mr->lkey, mr->rkey);
  const auto two = connected(4, cq);
  std::memset(memory.data(), 0, memory.size());
  memory[0] = 'x';
  ibv_sge from = sge(0, 8);
  from.lkey = mr->rkey;
  ibv_send_wr wr{.wr_id = 1, .sg_list = &from, .num_sge = 1};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = at(64);
  wr.wr.rdma.rkey = mr->lkey;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(two[0], &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory[64], 'x');
  end(two);
  // Without remote rights its key opens nothing.
  constexpr unsigned kWrite = IBV_ACCESS_LOCAL_WRITE;
  constexpr unsigned kRead = IBV_ACCESS_REMOTE_READ;
  constexpr std::array<unsigned, 3> kClosed{0, kWrite, kWrite | kRead};
  for (const unsigned access : kClosed) {
    ibv_mr* closed = ibv_reg_mr(pd, memory.data() + 128, 64, access);
    ASSERT_NE(closed, nullptr);
    EXPECT_EQ(closed->lkey, closed->rkey);
    const auto others = connected(4, cq);
    wr.wr.rdma.remote_addr = at(128);
    wr.wr.rdma.rkey = closed->rkey;
    ASSERT_EQ(ibv_post_send(others[0], &wr, &bad), 0);
    EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR) << access;
    EXPECT_EQ(memory[128], 0);
    end(others);
    EXPECT_EQ(ibv_dereg_mr(closed), 0);
  }
}

}  // namespace
}  // namespace weft::test
