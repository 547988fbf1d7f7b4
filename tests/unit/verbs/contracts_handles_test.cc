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

}  // namespace
}  // namespace weft::test
