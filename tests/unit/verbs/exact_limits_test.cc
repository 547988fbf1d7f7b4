// Limits of exact size, what is given back at the end of an object, and two of a kind in one call.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "fabric/link/link_handshake.h"
#include "tests/unit/verbs/contracts_fixture.h"
#include "verbs/newer_abi.h"

extern "C" {
weft::verbs::DmaHandle* weft_make_dmah(ibv_context* context, const weft::verbs::DmaHandleInit* init)
    WEFT_VERBS_NAMED("ibv_alloc_dmah");
int weft_end_dmah(weft::verbs::DmaHandle* handle) WEFT_VERBS_NAMED("ibv_dealloc_dmah");
}

namespace weft::test {
namespace {

class ExactLimits : public Contracts {};

TEST_F(ExactLimits, the_largest_inline_size_can_be_asked_for_and_no_more) {
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  ibv_qp* first = ibv_create_qp(pd, &init);
  ASSERT_NE(first, nullptr);
  const uint32_t most = init.cap.max_inline_data;
  init = init_of(IBV_QPT_RC);
  init.cap.max_inline_data = most;
  ibv_qp* second = ibv_create_qp(pd, &init);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(init.cap.max_inline_data, most);
  init.cap.max_inline_data = most + 1;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  EXPECT_EQ(ibv_destroy_qp(second), 0);
}

TEST_F(ExactLimits, an_alternate_timeout_is_a_code_of_five_bits) {
  const auto two = connected(4, cq);
  ibv_qp_attr attr{};
  attr.alt_ah_attr = {.dlid = own_lid(), .sl = 3, .port_num = 1};
  attr.alt_port_num = 1;
  attr.path_mig_state = IBV_MIG_REARM;
  attr.alt_timeout = 32;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), EINVAL);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("alt_timeout must be a code of 5 bits, 0 to 31, and is 32"), std::string::npos) << said;
  attr.alt_timeout = 31;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(two[0], &now, IBV_QP_ALT_PATH, &init), 0);
  EXPECT_EQ(now.alt_timeout, 31);
  end(two);
}

TEST_F(ExactLimits, a_region_may_have_half_of_all_addresses_and_not_one_more) {
  ibv_mr* half = ibv_reg_mr(pd, memory.data(), SIZE_MAX / 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(ibv_dereg_mr(half), 0);
  EXPECT_EQ(ibv_reg_mr(pd, memory.data(), SIZE_MAX / 2 + 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ExactLimits, advice_reaches_the_last_byte_of_a_region) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  ibv_mr* paged = ibv_reg_mr(pd, pages, 2 * page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(paged, nullptr);
  ibv_sge range{.addr = reinterpret_cast<uint64_t>(pages) + page,
                .length = static_cast<uint32_t>(page),
                .lkey = paged->lkey};
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), 0);
  ++range.length;
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), EFAULT);
  EXPECT_EQ(ibv_dereg_mr(paged), 0);
  EXPECT_EQ(munmap(pages, 2 * page), 0);
}

TEST_F(ExactLimits, a_dma_handle_names_a_cpu_that_there_is) {
  const auto cpus = static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_CONF));
  verbs::DmaHandleInit init{.comp_mask = verbs::kDmaCpu, .cpu_id = cpus};
  EXPECT_EQ(weft_make_dmah(context, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cpu_id = cpus - 1;
  verbs::DmaHandle* last = weft_make_dmah(context, &init);
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(weft_end_dmah(last), 0);
}

TEST_F(ExactLimits, a_port_names_as_many_lanes_as_its_link_has) {
  static_assert(fabric::LinkConfig{}.lanes == 4,
                "the link of this process; code 3 of max_vl_num means VL 0 to 3");
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.max_vl_num, 3);
}

TEST_F(ExactLimits, a_domain_that_has_ended_is_not_imported) {
  const int fd = dup(context->cmd_fd);
  ASSERT_GE(fd, 0);
  ibv_context* second = ibv_import_device(fd);
  close(fd);
  ASSERT_NE(second, nullptr);
  ibv_pd* brief = ibv_alloc_pd(context);
  ASSERT_NE(brief, nullptr);
  const uint32_t handle = brief->handle;
  ibv_pd* same = ibv_import_pd(second, handle);
  ASSERT_NE(same, nullptr);
  ibv_unimport_pd(same);
  EXPECT_EQ(ibv_dealloc_pd(brief), 0);
  EXPECT_EQ(ibv_import_pd(second, handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_close_device(second), 0);
}

TEST_F(ExactLimits, a_region_that_has_ended_is_not_imported_or_advised_about) {
  constexpr int kPaged = int{IBV_ACCESS_ON_DEMAND} | int{IBV_ACCESS_LOCAL_WRITE};
  ibv_mr* brief = ibv_reg_mr(pd, memory.data(), memory.size(), kPaged);
  ASSERT_NE(brief, nullptr);
  const uint32_t handle = brief->handle;
  ibv_sge range = sge(0, 64);
  range.lkey = brief->lkey;
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), 0);
  ibv_mr* same = ibv_import_mr(pd, handle);
  ASSERT_NE(same, nullptr);
  ibv_unimport_mr(same);
  ASSERT_EQ(ibv_dereg_mr(brief), 0);
  EXPECT_EQ(ibv_import_mr(pd, handle), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1), ENOENT);
}

TEST_F(ExactLimits, events_of_a_shared_queue_are_counted_in_its_struct) {
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &wanted);
  ASSERT_NE(srq, nullptr);
  ibv_srq_attr limit{.srq_limit = 2};
  ASSERT_EQ(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  ASSERT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  ASSERT_EQ(event.element.srq, srq);
  EXPECT_EQ(srq->events_completed, 0U);
  ibv_ack_async_event(&event);
  EXPECT_EQ(srq->events_completed, 1U);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

/// A segment where no compiler puts one.
struct [[gnu::packed]] OddSegment {
  uint32_t before;
  ibv_sge segment;
  uint32_t after;
};

TEST_F(ExactLimits, the_lists_of_one_call_stand_apart_at_any_address) {
  const auto two = connected(4, cq);
  alignas(8) std::array<OddSegment, 2> odd{};
  std::array<ibv_recv_wr, 2> receives{};
  for (size_t i = 0; i < 2; ++i) {
    odd[i].segment = sge(2048 * (i + 1), 8);
    const auto at = reinterpret_cast<uintptr_t>(&odd[i]) + offsetof(OddSegment, segment);
    ASSERT_NE(at % alignof(ibv_sge), 0U);
    receives[i] = {.wr_id = i,
                   .next = i == 0 ? &receives[1] : nullptr,
                   .sg_list = reinterpret_cast<ibv_sge*>(at),
                   .num_sge = 1};
  }
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(two[1], receives.data(), &bad), 0);
  for (const char* text : {"first..", "second."}) {
    std::memcpy(memory.data(), text, 8);
    ASSERT_EQ(post_message(two[0], 9), 0);
    take_good(cq, 2);
  }
  EXPECT_STREQ(&memory[2048], "first..");
  EXPECT_STREQ(&memory[4096], "second.");
  end(two);
}

}  // namespace
}  // namespace weft::test
