// Multicast groups of a RoCE port: the group's GID names it, and the LID means nothing.
#include <cstdlib>
#include <cstring>

#include "messages/multicast.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

constexpr const char* kFlavour = "WEFT_FLAVOUR";

class RocePort : public Verbs {
 protected:
  static ibv_gid group() {
    ibv_gid gid{};
    gid.raw[0] = 0xFF;
    gid.raw[1] = 0x12;
    gid.raw[15] = 0x07;
    return gid;
  }
  [[nodiscard]] static bool is_roce() { return std::getenv(kFlavour) != nullptr; }

  /// Sends eight bytes to the group by a handle that names it by `lid`.
  void send_to_group(ibv_qp* qp, uint16_t lid) const {
    ibv_ah_attr attr{.dlid = lid, .is_global = 1, .port_num = 1};
    attr.grh.dgid = group();
    attr.grh.hop_limit = 1;
    ibv_ah* to = ibv_create_ah(pd, &attr);
    ASSERT_NE(to, nullptr);
    post_recv(qp, 2, 4096, 64);
    ibv_sge from = sge(0, 8);
    ibv_send_wr wr{.wr_id = 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND};
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud = {.ah = to, .remote_qpn = 0xFFFFFF, .remote_qkey = 0x11};
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    EXPECT_EQ(two().at(2).byte_len, 40U + 8U);
    EXPECT_EQ(ibv_destroy_ah(to), 0);
  }
};

TEST_F(RocePort, joins_and_reaches_a_group_by_its_gid_alone) {
  if (!is_roce()) {
    EXPECT_EQ(run_again(kFlavour, "roce"), 0);
    return;
  }
  const ibv_gid gid = group();
  ibv_qp* ud = make_qp(IBV_QPT_UD);
  bring_up(ud, 0);
  ibv_gid none{};
  EXPECT_EQ(ibv_attach_mcast(ud, &none, 0), EINVAL) << "no group";
  Gid raw;
  std::memcpy(raw.data(), gid.raw, raw.size());
  const uint16_t own = multicast_lid(raw).value();  // librdmacm names it
  for (const uint16_t lid : {uint16_t{0}, uint16_t{1}, own, uint16_t{0xFFFF}}) {
    ASSERT_EQ(ibv_attach_mcast(ud, &gid, lid), 0) << lid;
    EXPECT_EQ(ibv_destroy_qp(ud), EBUSY);
    send_to_group(ud, lid);
    EXPECT_EQ(ibv_detach_mcast(ud, &gid, own), 0);
    EXPECT_EQ(ibv_attach_mcast(ud, &gid, own), 0);
    EXPECT_EQ(ibv_detach_mcast(ud, &gid, lid), 0);
    EXPECT_EQ(ibv_detach_mcast(ud, &gid, lid), EINVAL) << "it has left";
  }
}

TEST_F(RocePort, has_the_only_groups_without_a_lid) {
  if (is_roce()) return;
  const ibv_gid gid = group();
  ibv_qp* ud = make_qp(IBV_QPT_UD);
  bring_up(ud, 0);
  EXPECT_EQ(ibv_attach_mcast(ud, &gid, 0), EINVAL) << "on InfiniBand the LID names the group";
  ibv_ah_attr attr{.is_global = 1, .port_num = 1};
  attr.grh.dgid = gid;
  EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace weft::test
