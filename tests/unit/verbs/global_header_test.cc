// The global header of a datagram: what the program gave its address handle, in front of the data.
#include <endian.h>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using GlobalHeaders = Verbs;

TEST_F(GlobalHeaders, of_a_datagram_has_the_fields_of_its_address_handle) {
  ibv_qp* from = make_qp(IBV_QPT_UD);
  ibv_qp* to = make_qp(IBV_QPT_UD);
  bring_up(from, 0);
  bring_up(to, 0);
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  ibv_ah_attr way{.dlid = own_lid(), .is_global = 1, .port_num = 1};
  way.grh.dgid = gid;
  way.grh.flow_label = 0x1'2345;
  way.grh.hop_limit = 7;
  way.grh.traffic_class = 0xA5;
  ibv_ah* ah = ibv_create_ah(pd, &way);
  ASSERT_NE(ah, nullptr);
  post_recv(to, 1, 0, 128);
  ibv_sge data = sge(1024, 8);
  ibv_send_wr wr{.wr_id = 2, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND};
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {.ah = ah, .remote_qpn = to->qp_num, .remote_qkey = 0x11};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);
  const ibv_wc got = two().at(1);
  EXPECT_NE(got.wc_flags & IBV_WC_GRH, 0U);
  EXPECT_EQ(got.byte_len, sizeof(ibv_grh) + 8);
  ibv_grh header;
  std::memcpy(&header, memory.data(), sizeof header);
  EXPECT_EQ(be32toh(header.version_tclass_flow), 6U << 28 | 0xA5U << 20 | 0x1'2345U);
  EXPECT_EQ(header.hop_limit, 7U);
  EXPECT_EQ(std::memcmp(&header.dgid, &gid, sizeof gid), 0);
  EXPECT_EQ(std::memcmp(&header.sgid, &gid, sizeof gid), 0) << "the sender's, as its table has it";
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

}  // namespace
}  // namespace weft::test
