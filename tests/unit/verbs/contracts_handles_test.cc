// Promises of the manual pages about handles of one object: imported ones, those of an XRC target, and parent
// domains; and about arguments that a call passes over. docs/contracts.tsv has each promise with its test.
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "tests/support/allocation_counter.h"
#include "tests/unit/verbs/contracts_fixture.h"
#include "verbs/newer_abi.h"

extern "C" {
ibv_mr* weft_reg_mr_ex(ibv_pd* pd, const weft::verbs::MrInit* init) WEFT_VERBS_NAMED("ibv_reg_mr_ex");
weft::verbs::DmaHandle* weft_alloc_dmah(ibv_context* context, const weft::verbs::DmaHandleInit* init)
    WEFT_VERBS_NAMED("ibv_alloc_dmah");
int weft_dealloc_dmah(weft::verbs::DmaHandle* handle) WEFT_VERBS_NAMED("ibv_dealloc_dmah");
}

namespace weft::test {
namespace {

// ---- arguments that are passed over --------------------

TEST_F(Contracts, wr_flags_do_not_make_a_request_inline) {
  const auto two = connected(8, cq);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  std::memcpy(memory.data(), "by sge", 7);
  ibv_wr_start(wr);
  wr->wr_id = 1;
  wr->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_wr_rdma_write(wr, mr->rkey, at(4096));
  ibv_wr_set_sge(wr, mr->lkey, at(0), 7);
  ASSERT_EQ(ibv_wr_complete(wr), 0);
  take_good(cq, 1);
  EXPECT_STREQ(memory.data() + 4096, "by sge");
  end(two);
}

TEST_F(Contracts, a_qp_with_a_shared_queue_passes_over_sizes_beyond_the_limits) {
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &wanted);
  ASSERT_NE(srq, nullptr);
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  const std::array sizes{std::pair(static_cast<uint32_t>(device.max_qp_wr) + 1, 1U),
                         std::pair(1U, static_cast<uint32_t>(device.max_sge) + 1),
                         std::pair(UINT32_MAX, UINT32_MAX)};
  for (const auto& [wrs, sges] : sizes) {
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.srq = srq;
    init.cap.max_recv_wr = wrs;
    init.cap.max_recv_sge = sges;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr) << wrs << " receives of " << sges << " segments";
    EXPECT_EQ(init.cap.max_send_sge, 2U) << "as without these sizes";
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
  }
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

// ---- imported handles --------------------

thread_local ibv_context* ending_in = nullptr;  // set while this thread ends a domain
ibv_pd* allocated_meanwhile = nullptr;

/// Another thread allocates a domain as soon as a call that ends one frees memory.
void allocate_meanwhile() {
  ibv_context* context = std::exchange(ending_in, nullptr);
  if (context != nullptr) std::thread([context] { allocated_meanwhile = ibv_alloc_pd(context); }).join();
}

/// The number of a domain is given again as soon as the domain has ended.
TEST_F(Contracts, a_domain_is_found_although_another_thread_has_just_ended_one_of_its_number) {
  ibv_pd* ended = ibv_alloc_pd(context);
  ASSERT_NE(ended, nullptr);
  const uint32_t number = ended->handle;
  watch_frees(allocate_meanwhile);
  ending_in = context;
  const int answer = ibv_dealloc_pd(ended);
  ending_in = nullptr;
  watch_frees(nullptr);
  EXPECT_EQ(answer, 0);
  ASSERT_NE(allocated_meanwhile, nullptr);
  EXPECT_EQ(allocated_meanwhile->handle, number);
  ibv_pd* seen = ibv_import_pd(context, number);
  EXPECT_NE(seen, nullptr);
  if (seen != nullptr) ibv_unimport_pd(seen);
  EXPECT_EQ(ibv_dealloc_pd(allocated_meanwhile), 0);
}

TEST_F(Contracts, what_was_not_ended_because_it_is_in_use_is_still_found) {
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  ibv_pd* seen = ibv_import_pd(context, pd->handle);
  ASSERT_NE(seen, nullptr);
  ibv_unimport_pd(seen);
  ibv_mr* open = ibv_reg_mr(pd, memory.data(), 64, kAllRights | IBV_ACCESS_MW_BIND);
  ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ASSERT_TRUE(open != nullptr && window != nullptr);
  const auto two = connected(8, cq);
  ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED};
  bind.bind_info = {.mr = open, .addr = at(0), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
  ASSERT_EQ(ibv_bind_mw(two[0], window, &bind), 0);
  take_good(cq, 1);
  EXPECT_EQ(ibv_dereg_mr(open), EBUSY) << "a window is bound to it";
  ibv_mr* region = ibv_import_mr(pd, open->handle);
  ASSERT_NE(region, nullptr);
  ibv_unimport_mr(region);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(open), 0);
  end(two);
}

TEST_F(Contracts, an_imported_domain_is_ended_by_either_handle) {
  ibv_pd* first = ibv_alloc_pd(context);
  const uint32_t handle = first->handle;
  ibv_pd* second = ibv_import_pd(context, handle);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  ibv_mr* region = ibv_reg_mr(first, memory.data(), 64, kAllRights);
  EXPECT_EQ(ibv_dealloc_pd(second), EBUSY) << "a region of the other handle uses it";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  ibv_parent_domain_init_attr of{.pd = first};
  ibv_pd* parent = ibv_alloc_parent_domain(context, &of);
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(second), EBUSY) << "a parent domain of the other handle uses it";
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_pd(second), 0);
  EXPECT_EQ(ibv_import_pd(context, handle), nullptr) << "it has ended";
  ibv_unimport_pd(first);
}

TEST_F(Contracts, imported_device_memory_is_freed_by_either_handle) {
  ibv_device_attr_ex device;
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &device), 0);
  ibv_alloc_dm_attr most{.length = device.max_dm_size};
  for (int life = 0; life < 2; ++life) {
    ibv_dm* first = ibv_alloc_dm(context, &most);
    ASSERT_NE(first, nullptr) << "all of it is free again";
    const uint32_t handle = first->handle;
    ibv_dm* second = ibv_import_dm(context, handle);
    ASSERT_NE(second, nullptr);
    ibv_mr* region = ibv_reg_dm_mr(pd, first, 0, 64, kAllRights | IBV_ACCESS_ZERO_BASED);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(ibv_free_dm(second), EBUSY) << "a region is over it";
    EXPECT_EQ(ibv_dereg_mr(region), 0);
    EXPECT_EQ(ibv_free_dm(second), 0);
    EXPECT_EQ(ibv_import_dm(context, handle), nullptr) << "it has ended";
    ibv_unimport_dm(first);
  }
}

TEST_F(Contracts, what_a_region_used_is_free_when_an_imported_handle_ended_it) {
  ibv_alloc_dm_attr want{.length = 64};
  ibv_dm* dm = ibv_alloc_dm(context, &want);
  const verbs::DmaHandleInit hints{.comp_mask = verbs::kDmaHint, .processing_hint = 3};
  verbs::DmaHandle* dma = weft_alloc_dmah(context, &hints);
  ibv_parent_domain_init_attr of{.pd = pd};
  ibv_pd* parent = ibv_alloc_parent_domain(context, &of);
  ASSERT_TRUE(dm != nullptr && dma != nullptr && parent != nullptr);
  const verbs::MrInit with_dma{.length = 64,
                               .access = static_cast<int>(kAllRights),
                               .comp_mask = verbs::kMrAddr | verbs::kMrDmaHandle,
                               .addr = memory.data(),
                               .dmah = dma};
  const std::array regions{ibv_reg_dm_mr(pd, dm, 0, 64, kAllRights | IBV_ACCESS_ZERO_BASED),
                           weft_reg_mr_ex(pd, &with_dma), ibv_reg_mr(parent, memory.data(), 64, kAllRights)};
  for (ibv_mr* region : regions) {
    ASSERT_NE(region, nullptr);
    ibv_mr* seen = ibv_import_mr(pd, region->handle);
    ASSERT_NE(seen, nullptr);
    ibv_unimport_mr(seen);
  }
  EXPECT_EQ(ibv_free_dm(dm), EBUSY) << "handles have ended, not the regions";
  EXPECT_EQ(weft_dealloc_dmah(dma), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
  for (ibv_mr* region : regions) {
    ibv_mr* seen = ibv_import_mr(pd, region->handle);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(ibv_dereg_mr(seen), 0);
    ibv_unimport_mr(region);
  }
  EXPECT_EQ(ibv_free_dm(dm), 0);
  EXPECT_EQ(weft_dealloc_dmah(dma), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

/// The region has another key than its imported handle shows.
TEST_F(Contracts, an_imported_handle_ends_a_region_that_was_registered_again) {
  ibv_mr* own = ibv_reg_mr(pd, memory.data(), 64, kAllRights);
  ASSERT_NE(own, nullptr);
  ibv_mr* seen = ibv_import_mr(pd, own->handle);
  ASSERT_NE(seen, nullptr);
  ASSERT_EQ(ibv_rereg_mr(own, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data() + 64, 32, 0), 0);
  ASSERT_NE(own->handle, seen->handle);
  EXPECT_EQ(ibv_dereg_mr(seen), 0);
  EXPECT_EQ(ibv_import_mr(pd, own->handle), nullptr) << "it has ended";
  ibv_unimport_mr(own);
}

// ---- parent domains --------------------

TEST_F(Contracts, a_parent_domain_does_not_end_before_what_was_made_through_it) {
  ibv_td_init_attr none{};
  ibv_td* thread = ibv_alloc_td(context, &none);
  ibv_parent_domain_init_attr of{.pd = pd, .td = thread};
  ibv_pd* parent = ibv_alloc_parent_domain(context, &of);
  ASSERT_TRUE(thread != nullptr && parent != nullptr);
  const auto held = [&] { return ibv_dealloc_pd(parent) == EBUSY && ibv_dealloc_td(thread) == EBUSY; };
  ibv_mr* region = ibv_reg_mr(parent, memory.data(), 64, kAllRights);
  ASSERT_NE(region, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  ibv_qp* qp = ibv_create_qp(parent, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(parent, &wanted);
  ASSERT_NE(srq, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  ibv_mw* window = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
  ASSERT_NE(window, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  ibv_ah_attr to{.dlid = own_lid(), .port_num = 1};
  ibv_ah* handle = ibv_create_ah(parent, &to);
  ASSERT_NE(handle, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_destroy_ah(handle), 0);
  ibv_cq_init_attr_ex queue{};
  queue.cqe = 16;
  queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
  queue.parent_domain = parent;
  ibv_cq_ex* ex = ibv_create_cq_ex(context, &queue);
  ASSERT_NE(ex, nullptr);
  EXPECT_TRUE(held());
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(thread), 0);
}

TEST_F(Contracts, a_region_that_goes_to_another_domain_holds_that_one) {
  ibv_parent_domain_init_attr of{.pd = pd};
  const std::array parents{ibv_alloc_parent_domain(context, &of), ibv_alloc_parent_domain(context, &of)};
  ibv_mr* region = ibv_reg_mr(pd, memory.data(), 64, kAllRights);
  ASSERT_TRUE(parents[0] != nullptr && parents[1] != nullptr && region != nullptr);
  for (ibv_pd* to : parents) ASSERT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, to, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(parents[0]), 0);
  EXPECT_EQ(ibv_dealloc_pd(parents[1]), EBUSY);
  ASSERT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_dealloc_pd(parents[1]), 0);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

// ---- attributes of a QP --------------------

TEST_F(Contracts, each_handle_of_a_target_answers_the_attributes_that_another_one_set) {
  ibv_xrcd_init_attr domain_attr{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
  ibv_xrcd* domain = ibv_open_xrcd(context, &domain_attr);
  ASSERT_NE(domain, nullptr);
  ibv_qp_init_attr_ex init{.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
  ibv_qp* first = ibv_create_qp_ex(context, &init);
  ASSERT_NE(first, nullptr);
  ibv_qp_open_attr open{.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
                        .qp_num = first->qp_num,
                        .xrcd = domain,
                        .qp_type = IBV_QPT_XRC_RECV};
  ibv_qp* second = ibv_open_qp(context, &open);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->state, IBV_QPS_UNKNOWN);
  ibv_qp* from = make_qp(IBV_QPT_XRC_SEND);
  bring_up(first, from->qp_num);
  ibv_qp* third = ibv_open_qp(context, &open);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  for (ibv_qp* qp : {second, third}) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr made{};
    ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU, &made), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(qp->state, IBV_QPS_RTS);
    EXPECT_EQ(attr.path_mtu, IBV_MTU_256);
    EXPECT_EQ(attr.ah_attr.dlid, own_lid());
    EXPECT_EQ(attr.ah_attr.port_num, 1);
    EXPECT_EQ(attr.min_rnr_timer, 12);
    EXPECT_EQ(attr.timeout, 14);
    EXPECT_EQ(std::memcmp(&made.cap, &init.cap, sizeof made.cap), 0) << "as creation told";
  }
  EXPECT_EQ(ibv_destroy_qp(second), 0);
  EXPECT_EQ(ibv_destroy_qp(third), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

/// ::ffff:10.87.0.1 is the endnode with LID 1; the address has no LID.
TEST_F(Contracts, a_path_named_by_a_gid_of_roce_is_answered_after_the_migration_to_it) {
  ASSERT_EQ(own_lid(), 1);
  ibv_ah_attr to{.sl = 3, .is_global = 1, .port_num = 1};
  constexpr std::array<uint8_t, 16> kGid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 87, 0, 1};
  std::memcpy(to.grh.dgid.raw, kGid.data(), kGid.size());
  const auto two = connected(8, cq);
  give_alternate(two, to, to);
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_PATH_MIG_STATE), 0);
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(two[0], &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, kGid.data(), kGid.size()), 0);
  EXPECT_EQ(attr.ah_attr.sl, 3);
  EXPECT_EQ(attr.timeout, 15);
  EXPECT_EQ(attr.alt_ah_attr.is_global, 0) << "there is no further path";
  end(two);
}

// ---- time stamps --------------------

uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

TEST_F(Contracts, an_entry_has_one_time_stamp_however_often_it_is_read) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  attr.wc_flags =
      uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} | uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
  ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = ibv_cq_ex_to_cq(ex);
  const auto two = connected(8, plain);
  for (uint64_t id = 0; id < 2; ++id) ASSERT_EQ(post_write(two[0], id), 0);
  uint64_t earlier = nanoseconds(CLOCK_MONOTONIC);
  uint64_t earlier_of_day = nanoseconds(CLOCK_REALTIME);
  int taken = 0;
  const auto look = [&] {
    const uint64_t stamp = ibv_wc_read_completion_ts(ex);
    const uint64_t of_day = ibv_wc_read_completion_wallclock_ns(ex);
    const uint64_t after = nanoseconds(CLOCK_MONOTONIC);
    EXPECT_GE(stamp, earlier);
    EXPECT_GE(of_day, earlier_of_day);
    EXPECT_LE(stamp, after);
    while (nanoseconds(CLOCK_MONOTONIC) < after + 1000) {
    }
    EXPECT_EQ(ibv_wc_read_completion_ts(ex), stamp);
    EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(ex), of_day);
    earlier = stamp;
    earlier_of_day = of_day;
    ++taken;
  };
  ibv_poll_cq_attr none{};
  while (taken < 2) {
    if (ibv_start_poll(ex, &none) != 0) continue;
    do {
      look();
    } while (ibv_next_poll(ex) == 0);
    ibv_end_poll(ex);
  }
  end(two);
  EXPECT_EQ(ibv_destroy_cq(plain), 0);
}

}  // namespace
}  // namespace weft::test
