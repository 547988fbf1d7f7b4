// The fields of the queries: port, device and entries of the GID table. Programs size their queues by them.
#include <endian.h>

#include <algorithm>

#include "adapter/config.h"
#include "hca/hca_limits.h"
#include "messages/link_hello.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using Queries = Verbs;

TEST_F(Queries, a_port_says_what_its_link_is) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.phys_state, 5U) << "LinkUp";
  EXPECT_EQ(port.active_mtu, port.max_mtu);
  EXPECT_GE(port.max_mtu, IBV_MTU_256);
  EXPECT_EQ(port.gid_tbl_len, 1);
  EXPECT_EQ(port.port_cap_flags, uint32_t{IBV_PORT_CM_SUP | IBV_PORT_SYS_IMAGE_GUID_SUP});
  EXPECT_EQ(port.max_msg_sz, hca::hca_limits().message_bytes_max);
  EXPECT_EQ(port.pkey_tbl_len, kLinkPkeysMax);
  EXPECT_EQ(port.lid, 1U);
  EXPECT_EQ(port.sm_lid, 1U);
  EXPECT_EQ(port.subnet_timeout, 18U);
  EXPECT_EQ(port.active_width, 2U) << "4 lanes";
  EXPECT_EQ(port.active_speed, 32U) << "25 Gb/s per lane";
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_TRUE(port.max_vl_num >= 1 && port.max_vl_num <= 5) << int{port.max_vl_num};
}

TEST_F(Queries, a_device_says_how_many_objects_it_has) {
  const adapter::AdapterLimits most = hca::hca_limits();
  const auto is = [](int value, uint32_t limit) {
    return value == static_cast<int>(std::min<uint32_t>(limit, INT32_MAX));
  };
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  EXPECT_TRUE(is(device.max_qp, most.queue_pairs));
  EXPECT_TRUE(is(device.max_qp_wr, most.wqes_per_queue));
  EXPECT_TRUE(is(device.max_sge, most.sges_per_wqe));
  EXPECT_TRUE(is(device.max_sge_rd, most.sges_per_wqe));
  EXPECT_TRUE(is(device.max_cq, most.completion_queues));
  EXPECT_TRUE(is(device.max_cqe, most.cqes_per_queue));
  EXPECT_TRUE(is(device.max_mr, most.keys));
  EXPECT_TRUE(is(device.max_mw, most.keys));
  EXPECT_TRUE(is(device.max_pd, most.protection_domains));
  EXPECT_TRUE(is(device.max_srq, most.shared_receive_queues));
  EXPECT_TRUE(is(device.max_srq_wr, most.wqes_per_queue));
  EXPECT_TRUE(is(device.max_srq_sge, most.sges_per_wqe));
  EXPECT_TRUE(is(device.max_mcast_grp, most.multicast_members));
  EXPECT_EQ(device.max_mcast_qp_attach, device.max_mcast_grp);
  EXPECT_EQ(device.max_total_mcast_qp_attach, device.max_mcast_grp);
  EXPECT_TRUE(is(device.max_res_rd_atom, most.queue_pairs * 16));
  EXPECT_EQ(device.max_qp_rd_atom, 16);
  EXPECT_EQ(device.max_qp_init_rd_atom, 16);
  EXPECT_EQ(device.max_ah, INT32_MAX);
  EXPECT_EQ(device.max_pkeys, kLinkPkeysMax);
  EXPECT_EQ(device.phys_port_cnt, 1U);
}

TEST_F(Queries, a_device_says_who_made_it_and_what_it_can) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  EXPECT_EQ(device.node_guid, htobe64(0x1001));
  EXPECT_EQ(device.sys_image_guid, device.node_guid);
  EXPECT_EQ(device.vendor_id, 0x574546U);
  EXPECT_EQ(device.vendor_part_id, 1U);
  EXPECT_EQ(device.max_mr_size, UINT64_MAX >> 1);
  EXPECT_EQ(device.page_size_cap, ~uint64_t{4095}) << "each page size from 4 KiB up";
  EXPECT_EQ(device.atomic_cap, IBV_ATOMIC_HCA);
  for (const unsigned flag : {IBV_DEVICE_CURR_QP_STATE_MOD, IBV_DEVICE_PORT_ACTIVE_EVENT,
                              IBV_DEVICE_SYS_IMAGE_GUID, IBV_DEVICE_RC_RNR_NAK_GEN, IBV_DEVICE_SRQ_RESIZE,
                              IBV_DEVICE_MEM_WINDOW, IBV_DEVICE_MEM_WINDOW_TYPE_2B,
                              IBV_DEVICE_MEM_MGT_EXTENSIONS, IBV_DEVICE_XRC, IBV_DEVICE_AUTO_PATH_MIG})
    EXPECT_NE(device.device_cap_flags & flag, 0U) << flag;
}

TEST_F(Queries, the_extended_query_repeats_the_plain_one_and_adds_to_it) {
  ibv_device_attr plain;
  ibv_device_attr_ex device;
  ASSERT_EQ(ibv_query_device(context, &plain), 0);
  ASSERT_EQ(ibv_query_device_ex(context, nullptr, &device), 0);
  EXPECT_EQ(std::memcmp(&device.orig_attr, &plain, sizeof plain), 0);
  EXPECT_EQ(device.completion_timestamp_mask, UINT64_MAX);
  EXPECT_EQ(device.hca_core_clock, 1'000'000U) << "time stamps count nanoseconds";
  EXPECT_EQ(device.device_cap_flags_ex, plain.device_cap_flags);
  EXPECT_EQ(device.phys_port_cnt_ex, plain.phys_port_cnt);
  EXPECT_EQ(device.max_dm_size, uint64_t{1} << 20);
  EXPECT_EQ(device.odp_caps.general_caps, uint64_t{IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT});
  const uint32_t datagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  const uint32_t writes = datagrams | IBV_ODP_SUPPORT_WRITE;
  const uint32_t all = writes | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  EXPECT_EQ(device.odp_caps.per_transport_caps.ud_odp_caps, datagrams);
  EXPECT_EQ(device.odp_caps.per_transport_caps.uc_odp_caps, writes);
  EXPECT_EQ(device.odp_caps.per_transport_caps.rc_odp_caps, all);
  EXPECT_EQ(device.xrc_odp_caps, all);
}

TEST_F(Queries, an_entry_of_the_gid_table_says_where_it_stands) {
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(entry.gid_index, 0U);
  EXPECT_EQ(entry.port_num, 1U);
  EXPECT_EQ(entry.gid_type, uint32_t{IBV_GID_TYPE_IB});
  EXPECT_EQ(entry.ndev_ifindex, 0U);
  EXPECT_EQ(be64toh(entry.gid.global.subnet_prefix), 0xFE80'0000'0000'0000U);
  EXPECT_EQ(be64toh(entry.gid.global.interface_id), 0x1001U);
}

TEST_F(Queries, a_queue_pair_says_whether_its_send_queue_drains) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, 0xABCDEF);  // there is no such queue pair, so a request waits for its answer
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.sq_draining, 0);
  ibv_sge data = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  attr.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
  EXPECT_EQ(attr.sq_draining, 1);
}

TEST_F(Queries, operations_of_extended_queue_pairs_are_those_of_their_service) {
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr uint64_t kWrites = kSends | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                               IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  constexpr uint64_t kAll = kWrites | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  for (const auto& [type, possible] :
       {std::pair{IBV_QPT_UD, kSends}, std::pair{IBV_QPT_UC, kWrites}, std::pair{IBV_QPT_RC, kAll}}) {
    for (uint64_t bit = 1; bit <= IBV_QP_EX_WITH_TSO; bit <<= 1) {
      const ibv_qp_init_attr plain = init_of(type);
      ibv_qp_init_attr_ex init{};
      init.send_cq = plain.send_cq;
      init.recv_cq = plain.recv_cq;
      init.cap = plain.cap;
      init.qp_type = plain.qp_type;
      init.pd = pd;
      init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
      init.send_ops_flags = bit;
      ibv_qp* qp = ibv_create_qp_ex(context, &init);
      EXPECT_EQ(qp != nullptr, (possible & bit) != 0) << int{type} << " " << bit;
      if (qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
      }
    }
  }
}

}  // namespace
}  // namespace weft::test
