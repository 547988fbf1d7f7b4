// The number of the reason, in completions of both kinds of CQ.
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

class VendorErr : public Verbs {
 protected:
  /// A send whose segment ends behind its region.
  void fail_one() {
    ibv_qp* from = make_qp(IBV_QPT_RC);
    ibv_qp* to = make_qp(IBV_QPT_RC);
    bring_up(from, to->qp_num);
    bring_up(to, from->qp_num);
    post(from, 1);
    post(from, 2);
  }
  void post(ibv_qp* qp, uint64_t wr_id) const {
    ibv_sge over = sge(memory.size() - 8, 9);
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.sg_list = &over;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
};

TEST_F(VendorErr, tells_of_a_failure_and_of_what_flushed_the_next) {
  testing::internal::CaptureStderr();
  fail_one();
  const ibv_wc failed = next();
  EXPECT_EQ(failed.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(failed.vendor_err, 0x105U);
  const ibv_wc flushed = next();
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(flushed.vendor_err, 0x105U);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      said.find("local protection error, vendor_err 0x105: the segment is not within its memory region"),
      std::string::npos)
      << said;
}

TEST_F(VendorErr, is_zero_where_nothing_failed) {
  ibv_qp* from = make_qp(IBV_QPT_RC);
  ibv_qp* to = make_qp(IBV_QPT_RC);
  bring_up(from, to->qp_num);
  bring_up(to, from->qp_num);
  post_recv(to, 1, 0, 64);
  ibv_sge whole = sge(64, 64);
  ibv_send_wr wr{};
  wr.wr_id = 2;
  wr.sg_list = &whole;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  wr.imm_data = 0x12345678;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);
  for (const auto& [id, wc] : two()) EXPECT_EQ(wc.vendor_err, 0U) << id;
}

}  // namespace
}  // namespace weft::test
