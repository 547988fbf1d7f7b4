// Promises of the manual pages about work requests, queue pairs and completions. docs/contracts.tsv has each
// promise with its test.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

using Step = std::pair<ibv_qp_state, int>;

// ---- work requests --------------------

TEST_F(Contracts, each_builder_and_setter_does_what_its_name_says) {
  const auto two = connected(8, cq);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  ibv_mr* open = ibv_reg_mr(pd, memory.data(), memory.size(), kAllRights | IBV_ACCESS_MW_BIND);
  ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  ASSERT_TRUE(open != nullptr && window != nullptr);
  const auto run = [&](ibv_qp_ex* of, uint64_t id, auto&& build) {
    ibv_wr_start(of);
    of->wr_id = id;
    of->wr_flags = IBV_SEND_SIGNALED;
    build();
    EXPECT_EQ(ibv_wr_complete(of), 0);
  };
  const auto alone = [&](uint64_t id, ibv_wc_opcode opcode, auto&& build) {
    run(wr, id, build);
    const ibv_wc wc = next();
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
    EXPECT_EQ(wc.opcode, opcode);
  };
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  words[0] = 7;
  words[512] = 41;
  alone(1, IBV_WC_FETCH_ADD, [&] {
    ibv_wr_atomic_fetch_add(wr, mr->rkey, at(4096), 1);
    ibv_wr_set_sge(wr, mr->lkey, at(8), 8);
  });
  EXPECT_EQ(words[1], 41U);
  EXPECT_EQ(words[512], 42U);
  alone(2, IBV_WC_COMP_SWAP, [&] {
    ibv_wr_atomic_cmp_swp(wr, mr->rkey, at(4096), 42, 5);
    ibv_wr_set_sge(wr, mr->lkey, at(8), 8);
  });
  EXPECT_EQ(words[512], 5U);
  const std::array<ibv_sge, 2> lists{sge(0, 8), sge(4096, 8)};
  alone(3, IBV_WC_RDMA_READ, [&] {
    ibv_wr_rdma_read(wr, mr->rkey, at(4096));
    ibv_wr_set_sge(wr, mr->lkey, at(16), 8);
  });
  EXPECT_EQ(words[2], 5U);
  alone(4, IBV_WC_RDMA_WRITE, [&] {
    ibv_wr_rdma_write(wr, mr->rkey, at(1024));
    ibv_wr_set_sge_list(wr, lists.size(), lists.data());
  });
  EXPECT_EQ(words[128], 7U);
  EXPECT_EQ(words[129], 5U);
  std::array<uint64_t, 2> gone{11, 12};
  alone(5, IBV_WC_RDMA_WRITE, [&] {
    const std::array<ibv_data_buf, 2> parts{{{&gone[0], 8}, {&gone[1], 8}}};
    ibv_wr_rdma_write(wr, mr->rkey, at(1024));
    ibv_wr_set_inline_data_list(wr, parts.size(), parts.data());
    gone = {};  // the caller's again
  });
  EXPECT_EQ(words[128], 11U);
  EXPECT_EQ(words[129], 12U);
  // Messages, with what comes beside them.
  for (uint64_t i = 0; i < 4; ++i) post_recv(two[1], 100 + i, 2048, 64);
  run(wr, 6, [&] { ibv_wr_send(wr), ibv_wr_set_sge(wr, mr->lkey, at(0), 8); });
  EXPECT_EQ(Verbs::two().at(100).byte_len, 8U);
  run(wr, 7, [&] { ibv_wr_send_imm(wr, htobe32(0x1234)), ibv_wr_set_sge(wr, mr->lkey, at(0), 4); });
  EXPECT_EQ(be32toh(Verbs::two().at(101).imm_data), 0x1234U);
  run(wr, 8, [&] {
    ibv_wr_rdma_write_imm(wr, mr->rkey, at(3072), htobe32(0x99));
    ibv_wr_set_sge(wr, mr->lkey, at(0), 8);
  });
  const ibv_wc written = Verbs::two().at(102);
  EXPECT_EQ(written.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(be32toh(written.imm_data), 0x99U);
  EXPECT_EQ(words[384], 7U);
  // A window of the peer: bound, used, invalidated by our message; then bound and invalidated by its owner.
  ibv_qp_ex* peer = ibv_qp_to_qp_ex(two[1]);
  const ibv_mw_bind_info range{
      .mr = open, .addr = at(4096), .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  const auto bind = [&] {
    window->rkey = ibv_inc_rkey(window->rkey);
    run(peer, 9, [&] { ibv_wr_bind_mw(peer, window, window->rkey, &range); });
    EXPECT_EQ(next().opcode, IBV_WC_BIND_MW);
  };
  bind();
  alone(10, IBV_WC_RDMA_WRITE, [&] {
    ibv_wr_rdma_write(wr, window->rkey, at(4096));
    ibv_wr_set_sge(wr, mr->lkey, at(0), 8);
  });
  EXPECT_EQ(words[512], 7U);
  run(wr, 11, [&] { ibv_wr_send_inv(wr, window->rkey), ibv_wr_set_sge(wr, mr->lkey, at(0), 8); });
  const ibv_wc told = Verbs::two().at(103);
  EXPECT_NE(told.wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(told.invalidated_rkey, window->rkey);
  bind();
  run(peer, 12, [&] { ibv_wr_local_inv(peer, window->rkey); });
  EXPECT_EQ(next().opcode, IBV_WC_LOCAL_INV);
  end(two);
  EXPECT_EQ(ibv_dealloc_mw(window), 0);
  EXPECT_EQ(ibv_dereg_mr(open), 0);
}

TEST_F(Contracts, a_datagram_is_built_with_its_address) {
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 64};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND;
  const std::array<ibv_qp*, 2> two{ibv_create_qp_ex(context, &init), ibv_create_qp_ex(context, &init)};
  for (ibv_qp* qp : two) bring_up(qp, 0);
  ibv_ah_attr way{.dlid = own_lid(), .port_num = 1};
  ibv_ah* ah = ibv_create_ah(pd, &way);
  ASSERT_NE(ah, nullptr);
  post_recv(two[1], 2, 4096, 128);
  ibv_qp_ex* wr = ibv_qp_to_qp_ex(two[0]);
  ibv_wr_start(wr);
  wr->wr_id = 1;
  wr->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(wr);
  ibv_wr_set_ud_addr(wr, ah, two[1]->qp_num, 0x11);
  ibv_wr_set_sge(wr, mr->lkey, at(0), 8);
  ASSERT_EQ(ibv_wr_complete(wr), 0);
  const ibv_wc got = Verbs::two().at(2);
  EXPECT_EQ(got.src_qp, two[0]->qp_num);
  EXPECT_EQ(got.byte_len, 48U);
  // The address of a datagram by which it came leads back.
  ibv_ah_attr back;
  ibv_wc wc = got;
  ibv_grh header{};
  EXPECT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &header, &back), 0);
  EXPECT_EQ(back.dlid, own_lid());
  end(two);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Contracts, the_way_back_is_read_from_completion_and_header) {
  ibv_wc wc{};
  wc.slid = 0x17;
  wc.sl = 3;
  ibv_grh header{};
  header.version_tclass_flow = htobe32(6U << 28 | 0xA5U << 20 | 0x1'2345U);
  header.sgid.raw[0] = 0xFE;
  header.sgid.raw[15] = 9;
  ibv_ah_attr out;
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &header, &out), 0);
  EXPECT_EQ(out.is_global, 0);
  EXPECT_EQ(out.dlid, 0x17);
  EXPECT_EQ(out.sl, 3);
  EXPECT_EQ(out.port_num, 1);
  wc.wc_flags = IBV_WC_GRH;
  ASSERT_EQ(ibv_init_ah_from_wc(context, 1, &wc, &header, &out), 0);
  EXPECT_EQ(out.is_global, 1);
  EXPECT_EQ(out.grh.traffic_class, 0xA5);
  EXPECT_EQ(out.grh.flow_label, 0x1'2345U);
  EXPECT_EQ(std::memcmp(&out.grh.dgid, &header.sgid, sizeof out.grh.dgid), 0);
}

TEST_F(Contracts, a_buffer_of_an_inline_request_is_free_when_the_call_returns) {
  const auto two = connected(4, cq);
  for (uint64_t i = 0; i < 4; ++i) {
    uint64_t value = 0x1000 + i;
    ibv_sge from{.addr = reinterpret_cast<uint64_t>(&value), .length = sizeof value, .lkey = 0};
    ibv_send_wr wr{.wr_id = i, .sg_list = &from, .num_sge = 1};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_INLINE;
    wr.wr.rdma.remote_addr = at(8 * i);
    wr.wr.rdma.rkey = mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(two[0], &wr, &bad), 0);
    value = 0;
  }
  take_good(cq, 4);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(reinterpret_cast<uint64_t*>(memory.data())[i], 0x1000 + i);
  end(two);
}

/// Segments in a packed struct are copied first, into room that is used anew for each part of a long list.
TEST_F(Contracts, a_long_list_may_have_each_segment_at_an_odd_address) {
  constexpr size_t kRequests = 300;
  ibv_cq* own = ibv_create_cq(context, 2 * kRequests, nullptr, nullptr, 0);
  const auto two = connected(kRequests, own);
  std::vector<char> packed(kRequests * 2 * sizeof(ibv_sge) + 1);
  std::vector<ibv_send_wr> list(kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    char* place = packed.data() + 1 + i * 2 * sizeof(ibv_sge);
    const std::array<ibv_sge, 2> segments{sge(i % 8, 1), sge(0, 1)};
    std::memcpy(place, segments.data(), sizeof segments);
    list[i] = {.wr_id = i, .next = i + 1 < kRequests ? &list[i + 1] : nullptr};
    list[i].sg_list = reinterpret_cast<ibv_sge*>(place);
    list[i].num_sge = 2;
    list[i].opcode = IBV_WR_RDMA_WRITE;
    list[i].wr.rdma.remote_addr = at(4096 + 2 * i);
    list[i].wr.rdma.rkey = mr->rkey;
  }
  for (int i = 0; i < 8; ++i) memory[static_cast<size_t>(i)] = static_cast<char>('a' + i);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(two[0], list.data(), &bad), 0);
  take_good(own, kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(memory[4096 + 2 * i], static_cast<char>('a' + i % 8));
    EXPECT_EQ(memory[4096 + 2 * i + 1], 'a');
  }
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

// ---- queue pairs --------------------

TEST_F(Contracts, operations_that_a_service_has_not_are_refused_at_creation) {
  const std::array<std::pair<ibv_qp_type, uint64_t>, 4> none{{{IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE},
                                                              {IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV},
                                                              {IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ},
                                                              {IBV_QPT_RC, IBV_QP_EX_WITH_TSO}}};
  for (const auto& [type, operation] : none) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = type;
    init.send_cq = init.recv_cq = cq;
    init.cap = {1, 1, 1, 1, 0};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    init.send_ops_flags = operation;
    EXPECT_EQ(ibv_create_qp_ex(context, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    ibv_qp* plain = ibv_create_qp_ex(context, &init);
    ASSERT_NE(plain, nullptr);
    EXPECT_EQ(ibv_qp_to_qp_ex(plain), nullptr) << "no operations were named";
    EXPECT_EQ(ibv_destroy_qp(plain), 0);
  }
}

TEST_F(Contracts, a_qp_with_a_shared_queue_passes_over_the_size_of_its_own) {
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &wanted);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.srq = srq;
  init.cap.max_recv_wr = 0;
  init.cap.max_recv_sge = 0;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(init.cap.max_recv_wr, 0U);
  EXPECT_EQ(init.cap.max_recv_sge, 0U);
  bring_up(qp, qp->qp_num);
  EXPECT_EQ(post_receive(qp, ibv_post_recv), EINVAL) << "its receives come from the shared queue";
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Contracts, the_capabilities_that_creation_tells_are_kept) {
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.cap = {
      .max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 1, .max_recv_sge = 3, .max_inline_data = 10};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(init.cap.max_send_sge, 1U);
  EXPECT_GE(init.cap.max_recv_sge, 3U);
  EXPECT_GE(init.cap.max_inline_data, 10U);
  bring_up(qp, qp->qp_num);
  for (uint32_t i = 0; i < init.cap.max_recv_wr; ++i) EXPECT_EQ(post_receive(qp, ibv_post_recv), 0);
  EXPECT_EQ(post_receive(qp, ibv_post_recv), ENOMEM);
  ibv_qp_attr attr{};
  ibv_qp_init_attr told{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_CAP, &told), 0);
  EXPECT_EQ(std::memcmp(&told.cap, &init.cap, sizeof told.cap), 0);
  EXPECT_EQ(std::memcmp(&attr.cap, &init.cap, sizeof attr.cap), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  // A shared queue has room for a segment at least, and says so.
  for (const uint32_t sges : {0U, 1U, 4U}) {
    ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = sges}};
    ibv_srq* srq = ibv_create_srq(pd, &wanted);
    ASSERT_NE(srq, nullptr);
    ibv_srq_attr of{};
    ASSERT_EQ(ibv_query_srq(srq, &of), 0);
    EXPECT_EQ(wanted.attr.max_sge, of.max_sge);
    EXPECT_EQ(of.max_sge, std::max(sges, 1U));
    EXPECT_EQ(of.max_wr, 2U);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
}

TEST_F(Contracts, a_refused_change_of_a_qp_changes_nothing) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  EXPECT_EQ(device.device_cap_flags & IBV_DEVICE_RESIZE_MAX_WR, 0U);
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_qp_attr before{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &before, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(before.timeout, 14);
  EXPECT_EQ(before.retry_cnt, 7);
  EXPECT_EQ(before.min_rnr_timer, 12);
  EXPECT_EQ(before.dest_qp_num, qp->qp_num);
  EXPECT_EQ(before.path_mtu, IBV_MTU_256);
  EXPECT_EQ(before.ah_attr.dlid, own_lid());
  EXPECT_EQ(before.qp_access_flags, kAllRights);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.qp_access_flags = 0;
  attr.min_rnr_timer = 32;  // of 5 bits
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), EINVAL);
  attr.min_rnr_timer = 1;
  attr.cap.max_send_wr = 100;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER | IBV_QP_CAP), EINVAL);
  attr.qp_state = IBV_QPS_INIT;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), EINVAL);
  ibv_qp_attr after{};
  ASSERT_EQ(ibv_query_qp(qp, &after, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(after.qp_state, before.qp_state);
  EXPECT_EQ(after.qp_access_flags, before.qp_access_flags);
  EXPECT_EQ(after.min_rnr_timer, before.min_rnr_timer);
  EXPECT_EQ(after.cap.max_send_wr, before.cap.max_send_wr);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  // The next life begins without what the program had set.
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  ASSERT_EQ(ibv_query_qp(qp, &after, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(after.timeout, 0);
  EXPECT_EQ(after.min_rnr_timer, 0);
  EXPECT_EQ(after.ah_attr.dlid, 0);
  EXPECT_EQ(after.dest_qp_num, 0U);
}

TEST_F(Contracts, each_step_of_a_qp_needs_the_attributes_of_the_manual) {
  constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  constexpr int kWay = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  constexpr int kRts = IBV_QP_SQ_PSN;
  constexpr int kAsks = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;
  const std::map<ibv_qp_type, std::vector<Step>> table{
      {IBV_QPT_UD, {{IBV_QPS_INIT, kInit | IBV_QP_QKEY}, {IBV_QPS_RTR, 0}, {IBV_QPS_RTS, kRts}}},
      {IBV_QPT_UC, {{IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS}, {IBV_QPS_RTR, kWay}, {IBV_QPS_RTS, kRts}}},
      {IBV_QPT_RC,
       {{IBV_QPS_INIT, kInit | IBV_QP_ACCESS_FLAGS},
        {IBV_QPS_RTR, kWay | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
        {IBV_QPS_RTS, kRts | kAsks}}}};
  for (const auto& [type, steps] : table) {
    ibv_qp* qp = make_qp(type);
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.ah_attr.dlid = own_lid();
    attr.ah_attr.port_num = 1;
    for (const auto& [state, needed] : steps) {
      attr.qp_state = state;
      for (int bit = 1; bit <= needed; bit <<= 1) {
        if ((needed & bit) == 0) continue;
        EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (needed & ~bit)), EINVAL)
            << "type " << type << ", state " << state << ", without bit " << std::hex << bit;
      }
      EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | needed), 0) << "type " << type << ", state " << state;
      EXPECT_EQ(qp->state, state);
    }
  }
}

/// Alternate paths as the device says it has them: given, armed, migrated to by the program.
TEST_F(Contracts, a_device_with_path_migration_takes_an_alternate_path_and_migrates) {
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context, &device), 0);
  ASSERT_NE(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0U);
  const auto two = connected(8, cq);
  ibv_qp_attr attr{};
  attr.alt_ah_attr = {.dlid = own_lid(), .sl = 3, .port_num = 1};
  attr.alt_port_num = 1;
  attr.alt_timeout = 15;
  attr.path_mig_state = IBV_MIG_REARM;
  for (ibv_qp* qp : two) ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
  const auto state_of = [&](ibv_qp* qp) {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &now, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH | IBV_QP_AV, &init), 0);
    return now;
  };
  EXPECT_EQ(state_of(two[0]).alt_ah_attr.sl, 3);
  EXPECT_EQ(state_of(two[0]).alt_timeout, 15);
  // Both ends are armed when cells have gone each way.
  for (int round = 0; round < 2; ++round) {
    for (ibv_qp* qp : two) {
      ASSERT_EQ(post_write(qp, 1), 0);
      take_good(cq, 1);
    }
  }
  ASSERT_EQ(state_of(two[0]).path_mig_state, IBV_MIG_ARMED);
  ASSERT_EQ(state_of(two[1]).path_mig_state, IBV_MIG_ARMED);
  attr = {};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_PATH_MIG_STATE), 0);
  EXPECT_EQ(state_of(two[0]).path_mig_state, IBV_MIG_MIGRATED);
  EXPECT_EQ(state_of(two[0]).ah_attr.sl, 3) << "the alternate path is the primary one";
  ASSERT_EQ(post_write(two[0], 2), 0);
  take_good(cq, 1);
  end(two);
}

/// The QP keeps the path that it migrated to when its program gives it another alternate path before it asks.
TEST_F(Contracts, the_path_that_a_qp_migrated_to_stays_when_it_gets_another_alternate_path) {
  const auto two = connected(8, cq);
  give_alternate(two, {.dlid = own_lid(), .sl = 3, .port_num = 1},
                 {.dlid = own_lid(), .sl = 3, .port_num = 1});
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_PATH_MIG_STATE), 0);
  attr = {};
  attr.alt_ah_attr = {.dlid = own_lid(), .sl = 5, .port_num = 1};
  attr.alt_port_num = 1;
  attr.alt_timeout = 16;
  attr.path_mig_state = IBV_MIG_REARM;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(two[0], &now, IBV_QP_ALT_PATH | IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
  EXPECT_EQ(now.ah_attr.sl, 3);
  EXPECT_EQ(now.timeout, 15);
  EXPECT_EQ(now.alt_ah_attr.sl, 5);
  EXPECT_EQ(now.alt_timeout, 16);
  end(two);
}

/// Cells of such a path have a global header, and no path of this peer has one: it takes none of them.
TEST_F(Contracts, an_alternate_path_into_another_subnet_has_a_global_header) {
  const auto two = connected(8, cq);
  ibv_ah_attr far{.dlid = own_lid(), .sl = 3, .is_global = 1, .port_num = 1};
  far.grh.hop_limit = 4;
  const std::array<uint8_t, 16> gid{0xFD, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1};
  std::copy(gid.begin(), gid.end(), far.grh.dgid.raw);
  give_alternate(two, far, {.dlid = own_lid(), .sl = 3, .port_num = 1});
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_PATH_MIG_STATE), 0);
  ASSERT_EQ(post_write(two[0], 2), 0);
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
  }
  EXPECT_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
  end(two);
}

// ---- completions --------------------

TEST_F(Contracts, fields_of_an_entry_are_those_of_a_plain_poll) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 64;
  constexpr uint64_t kFields =
      uint64_t{IBV_WC_STANDARD_FLAGS} |
      uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
  attr.wc_flags = kFields;
  ibv_cq_ex* ex = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(ex, nullptr);
  ibv_cq* plain = ibv_cq_ex_to_cq(ex);
  const auto two = connected(8, cq);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.recv_cq = plain;
  ibv_qp* from = two[0];
  ibv_qp* to = ibv_create_qp(pd, &init);
  ibv_qp_attr reset{};
  reset.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(ibv_modify_qp(from, &reset, IBV_QP_STATE), 0);
  bring_up(from, to->qp_num);
  bring_up(to, from->qp_num);
  const auto send = [&] {
    post_recv(to, 55, 4096, 64);
    ibv_sge data = sge(0, 24);
    ibv_send_wr wr{.wr_id = 1, .sg_list = &data, .num_sge = 1};
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htobe32(0xABCD);
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);
    take_good(cq, 1);
  };
  uint64_t earlier = 0;
  for (int round = 0; round < 2; ++round) {
    send();
    ibv_wc wc{};
    while (ibv_poll_cq(plain, 1, &wc) == 0) {
    }
    send();
    ibv_poll_cq_attr none{};
    while (ibv_start_poll(ex, &none) != 0) {
    }
    EXPECT_EQ(ex->wr_id, wc.wr_id);
    EXPECT_EQ(ex->status, wc.status);
    EXPECT_EQ(ibv_wc_read_opcode(ex), wc.opcode);
    EXPECT_EQ(ibv_wc_read_byte_len(ex), wc.byte_len);
    EXPECT_EQ(ibv_wc_read_imm_data(ex), wc.imm_data);
    EXPECT_EQ(ibv_wc_read_qp_num(ex), wc.qp_num);
    EXPECT_EQ(ibv_wc_read_src_qp(ex), wc.src_qp);
    EXPECT_EQ(ibv_wc_read_wc_flags(ex), wc.wc_flags);
    EXPECT_EQ(ibv_wc_read_slid(ex), wc.slid);
    EXPECT_EQ(ibv_wc_read_sl(ex), wc.sl);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(ex), wc.dlid_path_bits);
    EXPECT_EQ(ibv_wc_read_vendor_err(ex), wc.vendor_err);
    EXPECT_GE(ibv_wc_read_completion_ts(ex), earlier);
    earlier = ibv_wc_read_completion_ts(ex);
    EXPECT_GT(ibv_wc_read_completion_wallclock_ns(ex), earlier)
        << "since 1970, not since the machine started";
    EXPECT_EQ(ibv_next_poll(ex), ENOENT);
    ibv_end_poll(ex);
  }
  EXPECT_EQ(ibv_destroy_qp(to), 0);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(plain), 0);
}

TEST_F(Contracts, a_queue_of_completions_is_resized_and_keeps_what_waits) {
  ibv_cq* own = ibv_create_cq(context, 32, nullptr, nullptr, 0);
  const auto two = connected(32, own);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(post_write(two[0], i, IBV_SEND_SIGNALED, 4096 + 8 * i), 0);
  memory[0] = 'x';
  ASSERT_EQ(post_write(two[0], 20, IBV_SEND_SIGNALED, 6000), 0);
  wait_until_written(&memory[6000]);
  ASSERT_EQ(ibv_resize_cq(own, 200), 0);
  EXPECT_GE(own->cqe, 200);
  for (uint64_t i = 0; i < 21; ++i) {
    ibv_wc wc{};
    while (ibv_poll_cq(own, 1, &wc) == 0) {
    }
    EXPECT_EQ(wc.wr_id, i);
  }
  ASSERT_EQ(ibv_resize_cq(own, 16), 0);
  EXPECT_GE(own->cqe, 16);
  EXPECT_EQ(ibv_resize_cq(own, 0), EINVAL);
  end(two);
  EXPECT_EQ(ibv_destroy_cq(own), 0);
}

TEST_F(Contracts, waiting_without_an_event_is_refused_on_a_descriptor_that_does_not_block) {
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
  ibv_async_event event{};
  int answer = 0;
  while ((answer = ibv_get_async_event(context, &event)) == 0) ibv_ack_async_event(&event);
  EXPECT_EQ(answer, -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Contracts, a_qp_is_gone_when_its_events_are_acknowledged) {
  const auto two = connected(4, cq);
  ibv_sge from = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1, .sg_list = &from, .num_sge = 1};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = 1;
  wr.wr.rdma.rkey = mr->rkey;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(two[0], &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    if (event.event_type != IBV_EVENT_QP_ACCESS_ERR) ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
  std::atomic<bool> destroyed{false};
  std::thread other([&] {
    EXPECT_EQ(ibv_destroy_qp(event.element.qp), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(destroyed);
  ibv_ack_async_event(&event);
  other.join();
  EXPECT_EQ(ibv_destroy_qp(two[0]), 0);
}

}  // namespace
}  // namespace weft::test
