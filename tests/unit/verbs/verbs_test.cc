// The drop-in libibverbs as a C program sees it, in a process that has joined a switch in another thread and
// talks to itself.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

TEST_F(Verbs, the_device_says_who_it_is_and_keeps_its_pointer) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ASSERT_EQ(count, 1);
  ASSERT_EQ(list[1], nullptr);
  EXPECT_EQ(list[0], context->device);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "weft0");
  EXPECT_EQ(be64toh(ibv_get_device_guid(list[0])), 0x1001U);
  ibv_free_device_list(list);
  ibv_device_attr attr;
  ASSERT_EQ(ibv_query_device(context, &attr), 0);
  EXPECT_EQ(attr.vendor_id, 0x574546U);
  EXPECT_EQ(be64toh(attr.node_guid), 0x1001U);
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.lid, 1);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  ibv_gid gid;
  ASSERT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  EXPECT_EQ(be64toh(gid.global.subnet_prefix), 0xFE80'0000'0000'0000U);
  EXPECT_EQ(be64toh(gid.global.interface_id), 0x1001U);
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  EXPECT_EQ(ibv_query_gid(context, 1, 1, &gid), -1);
}

/// Programs that were built before the struct grew pass less room, those built later more.
TEST_F(Verbs, query_port_writes_no_more_than_the_caller_has) {
  std::array<unsigned char, 64> room{};
  room.fill(0xAA);
  verbs_context* wide = verbs_get_ctx(context);
  ASSERT_EQ(wide->query_port(context, 1, reinterpret_cast<ibv_port_attr*>(room.data()), 48), 0);
  EXPECT_EQ(room[48], 0xAA);
  ASSERT_EQ(wide->query_port(context, 1, reinterpret_cast<ibv_port_attr*>(room.data()), 60), 0);
  EXPECT_EQ(room[59], 0);
  EXPECT_EQ(room[60], 0xAA);
}

TEST_F(Verbs, a_message_arrives_with_its_immediate_data) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  std::memcpy(memory.data(), "one two", 8);
  post_recv(b, 2, 4096, 64);
  ibv_sge from = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1,
                 .sg_list = &from,
                 .num_sge = 1,
                 .opcode = IBV_WR_SEND_WITH_IMM,
                 .send_flags = IBV_SEND_SIGNALED};
  wr.imm_data = htobe32(0x01020304);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  const auto got = two();
  EXPECT_EQ(got.at(1).opcode, IBV_WC_SEND);
  EXPECT_EQ(got.at(2).opcode, IBV_WC_RECV);
  EXPECT_EQ(got.at(2).byte_len, 8U);
  EXPECT_EQ(got.at(2).wc_flags, IBV_WC_WITH_IMM);
  EXPECT_EQ(be32toh(got.at(2).imm_data), 0x01020304U);
  EXPECT_STREQ(memory.data() + 4096, "one two");
}

/// A packed struct, as programs have them, with the segment where none of ours can be, in each of an array.
struct [[gnu::packed]] PackedRequest {
  uint32_t before;
  ibv_sge segment;
  uint32_t after;
};

TEST_F(Verbs, segments_may_stand_at_any_address) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  alignas(8) std::array<PackedRequest, 2> packed{};
  packed[0].segment = sge(0, 100);
  packed[1].segment = sge(4096, 100);
  std::array<ibv_sge*, 2> segments{};
  for (size_t i = 0; i < 2; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(&packed[i]) + offsetof(PackedRequest, segment);
    segments[i] = reinterpret_cast<ibv_sge*>(at);
    ASSERT_NE(at % alignof(ibv_sge), 0U);
  }
  ibv_recv_wr recv{.wr_id = 7, .sg_list = segments[1], .num_sge = 1};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_recv(b, &recv, &bad_recv), 0);
  std::memset(memory.data(), 'x', 100);
  ibv_send_wr send{.wr_id = 8, .sg_list = segments[0], .num_sge = 1};
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &send, &bad), 0);
  EXPECT_EQ(two().at(7).byte_len, 100U);
  EXPECT_EQ(std::memcmp(&memory[4096], memory.data(), 100), 0);
  recv.num_sge = 1000;
  EXPECT_EQ(ibv_post_recv(b, &recv, &bad_recv), EINVAL);
  EXPECT_EQ(bad_recv, &recv);
}

TEST_F(Verbs, reads_writes_and_atomics_reach_memory_by_key) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  const auto far = reinterpret_cast<uint64_t>(memory.data()) + 4096;
  uint64_t value = 40;
  std::memcpy(memory.data() + 4096, &value, sizeof value);
  ibv_sge local = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1,
                 .sg_list = &local,
                 .num_sge = 1,
                 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                 .send_flags = IBV_SEND_SIGNALED};
  wr.wr.atomic = {.remote_addr = far, .compare_add = 2, .swap = 0, .rkey = mr->rkey};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic = {.remote_addr = far, .compare_add = 42, .swap = 7, .rkey = mr->rkey};
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  std::memcpy(&value, memory.data(), sizeof value);
  EXPECT_EQ(value, 42U);
  wr.opcode = IBV_WR_RDMA_READ;
  wr.wr.rdma = {.remote_addr = far, .rkey = mr->rkey};
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().opcode, IBV_WC_RDMA_READ);
  std::memcpy(&value, memory.data(), sizeof value);
  EXPECT_EQ(value, 7U);
  wr.wr.rdma.rkey = mr->rkey ^ 0x100;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Verbs, windows_of_both_types_open_a_part_of_a_region) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  ibv_mr* open = ibv_reg_mr(pd, memory.data(), memory.size(), kAllRights | IBV_ACCESS_MW_BIND);
  ibv_mw* first = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
  ibv_mw* second = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
  ASSERT_TRUE(open != nullptr && first != nullptr && second != nullptr);
  ibv_send_wr* bad = nullptr;
  ibv_sge local = sge(0, 8);
  const uint64_t far = reinterpret_cast<uint64_t>(memory.data()) + 4096;
  const auto write = [&](uint32_t rkey) {
    ibv_send_wr wr{
        .sg_list = &local, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma = {.remote_addr = far, .rkey = rkey};
    EXPECT_EQ(ibv_post_send(a, &wr, &bad), 0);
    return next().status;
  };
  const ibv_mw_bind_info range{
      .mr = open, .addr = far, .length = 8, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = range};
  const uint32_t before = first->rkey;
  ASSERT_EQ(ibv_bind_mw(b, first, &bind), 0);
  EXPECT_NE(first->rkey, before);
  EXPECT_EQ(next().opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(write(first->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dereg_mr(open), EBUSY);
  EXPECT_EQ(ibv_bind_mw(b, second, &bind), EINVAL);
  const uint32_t bound = first->rkey;
  EXPECT_EQ(ibv_bind_mw(make_qp(IBV_QPT_RC), first, &bind), EINVAL) << "the QP is in RESET";
  EXPECT_EQ(first->rkey, bound);
  second->rkey = ibv_inc_rkey(second->rkey);
  ibv_send_wr wr{.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
  wr.bind_mw = {.mw = second, .rkey = second->rkey, .bind_info = range};
  ASSERT_EQ(ibv_post_send(b, &wr, &bad), 0);
  EXPECT_EQ(next().opcode, IBV_WC_BIND_MW);
  EXPECT_EQ(write(second->rkey), IBV_WC_SUCCESS);
  wr = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
  wr.invalidate_rkey = second->rkey;
  ASSERT_EQ(ibv_post_send(b, &wr, &bad), 0);
  EXPECT_EQ(next().opcode, IBV_WC_LOCAL_INV);
  EXPECT_EQ(write(second->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dealloc_mw(first), 0);
  EXPECT_EQ(ibv_dealloc_mw(second), 0);
  EXPECT_EQ(ibv_dereg_mr(open), 0);
}

TEST_F(Verbs, a_datagram_leaves_room_for_the_header_and_says_where_it_came_from) {
  ibv_qp* a = make_qp(IBV_QPT_UD);
  ibv_qp* b = make_qp(IBV_QPT_UD);
  bring_up(a, 0);
  bring_up(b, 0);
  ibv_ah_attr way{.dlid = own_lid(), .sl = 3, .port_num = 1};
  ibv_ah* ah = ibv_create_ah(pd, &way);
  ASSERT_NE(ah, nullptr);
  std::memcpy(memory.data(), "hello", 6);
  post_recv(b, 2, 4096, 128);
  ibv_sge from = sge(0, 6);
  ibv_send_wr wr{
      .wr_id = 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.ud = {.ah = ah, .remote_qpn = b->qp_num, .remote_qkey = 0x11};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  auto got = two();
  EXPECT_EQ(got.at(2).byte_len, 46U);
  EXPECT_EQ(got.at(2).src_qp, a->qp_num);
  EXPECT_EQ(got.at(2).slid, own_lid());
  EXPECT_EQ(got.at(2).sl, 3);
  EXPECT_STREQ(memory.data() + 4096 + 40, "hello");
  ibv_ah* back = ibv_create_ah_from_wc(pd, &got.at(2), nullptr, 1);
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(ibv_destroy_ah(back), 0);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

TEST_F(Verbs, extended_calls_build_a_batch_and_read_an_entry) {
  ibv_cq_init_attr_ex cq_attr{.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
  ibv_cq_ex* wide = ibv_create_cq_ex(context, &cq_attr);
  ASSERT_NE(wide, nullptr);
  ibv_qp_init_attr_ex init{.send_cq = ibv_cq_ex_to_cq(wide),
                           .recv_cq = ibv_cq_ex_to_cq(wide),
                           .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
                           .qp_type = IBV_QPT_RC,
                           .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                           .pd = pd,
                           .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM};
  ibv_qp* a = ibv_create_qp_ex(context, &init);
  ASSERT_NE(a, nullptr);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  post_recv(b, 2, 4096, 64);
  ibv_qp_ex* build = ibv_qp_to_qp_ex(a);
  ASSERT_NE(build, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(b), nullptr);
  ibv_wr_start(build);
  build->wr_id = 1;
  build->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(build);
  std::array<char, 6> text{"short"};
  ibv_wr_set_inline_data(build, text.data(), text.size());
  text.fill('x');
  ASSERT_EQ(ibv_wr_complete(build), 0);
  EXPECT_EQ(next().wr_id, 2U);
  EXPECT_STREQ(memory.data() + 4096, "short");
  ibv_poll_cq_attr poll{};
  int found = ENOENT;
  while (found == ENOENT) found = ibv_start_poll(wide, &poll);
  ASSERT_EQ(found, 0);
  EXPECT_EQ(wide->wr_id, 1U);
  EXPECT_EQ(wide->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(wide), IBV_WC_SEND);
  EXPECT_EQ(ibv_wc_read_qp_num(wide), a->qp_num);
  EXPECT_EQ(ibv_next_poll(wide), ENOENT);
  ibv_end_poll(wide);
  // What the device cannot do is refused when the batch is complete.
  ibv_wr_start(build);
  ibv_wr_atomic_write(build, 1, 0, memory.data());
  EXPECT_EQ(ibv_wr_complete(build), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(wide)), 0);
}

TEST_F(Verbs, a_small_completion_queue_has_room_for_some_more) {
  ibv_cq* small = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  ASSERT_NE(small, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.recv_cq = small;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  bring_up(qp, qp->qp_num);
  for (uint64_t wr_id = 1; wr_id <= 3; ++wr_id) post_recv(qp, wr_id, 0, 64);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  std::array<ibv_wc, 4> flushed{};
  EXPECT_EQ(ibv_poll_cq(small, 4, flushed.data()), 3);
  EXPECT_GE(small->cqe, 3);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(small), 0);
}

TEST_F(Verbs, limits_are_kept_and_refusals_have_their_errno) {
  ibv_device_attr most;
  ASSERT_EQ(ibv_query_device(context, &most), 0);
  EXPECT_EQ(ibv_create_cq(context, most.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, 1, nullptr, nullptr, context->num_comp_vectors), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.cap.max_inline_data = 1 << 20;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_mr(pd, memory.data(), 8, unsigned{IBV_ACCESS_REMOTE_WRITE}), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  ibv_sge to = sge(0, 8);
  ibv_recv_wr recv{.wr_id = 1, .sg_list = &to, .num_sge = 1};
  ibv_recv_wr* bad_recv = nullptr;
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), EINVAL);  // in RESET
  EXPECT_EQ(bad_recv, &recv);
  bring_up(qp, qp->qp_num);
  for (int posted = 0; posted < 8; ++posted) ASSERT_EQ(ibv_post_recv(qp, &recv, &bad_recv), 0);
  EXPECT_EQ(ibv_post_recv(qp, &recv, &bad_recv), ENOMEM);
}

TEST_F(Verbs, the_third_of_four_requests_is_the_bad_one) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  std::array<ibv_send_wr, 4> list{};
  for (size_t i = 0; i < list.size(); ++i) {
    list[i] = {.wr_id = i,
               .next = i + 1 < list.size() ? &list[i + 1] : nullptr,
               .opcode = IBV_WR_RDMA_WRITE,
               .send_flags = IBV_SEND_SIGNALED};
    list[i].wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(memory.data()), .rkey = mr->rkey};
  }
  list[2].opcode = IBV_WR_TSO;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, list.data(), &bad), EINVAL);
  EXPECT_EQ(bad, &list[2]);
  for (uint64_t i = 0; i < 2; ++i) EXPECT_EQ(next().wr_id, i);
}

TEST_F(Verbs, an_armed_queue_wakes_its_channel_once) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  post_recv(b, 2, 4096, 64);
  ibv_sge from = sge(0, 8);
  ibv_send_wr wr{
      .wr_id = 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  ibv_cq* told = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &told, &user), 0);
  EXPECT_EQ(told, cq);
  EXPECT_EQ(user, this);
  ibv_ack_cq_events(told, 1);
  two();
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(ibv_get_cq_event(channel, &told, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Verbs, an_event_names_the_queue_pair_that_failed) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  ibv_send_wr wr{.wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma = {.remote_addr = 1, .rkey = mr->rkey};
  ibv_sge from = sge(0, 8);
  wr.sg_list = &from;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  do {
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
  } while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, b);
}

TEST_F(Verbs, shared_receive_queues_serve_and_are_refused_while_in_use) {
  ibv_srq_init_attr srq_init{.attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &srq_init);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.srq = srq;
  ibv_qp* b = ibv_create_qp(pd, &init);
  ASSERT_NE(b, nullptr);
  ibv_qp* a = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  ibv_sge to = sge(4096, 64);
  ibv_recv_wr recv{.wr_id = 2, .sg_list = &to, .num_sge = 1};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
  ibv_sge from = sge(0, 8);
  ibv_send_wr wr{
      .wr_id = 1, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(two().at(2).qp_num, b->qp_num);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Verbs, a_region_that_is_registered_again_has_new_keys_and_the_old_are_dead) {
  ibv_qp* a = make_qp(IBV_QPT_RC);
  ibv_qp* b = make_qp(IBV_QPT_RC);
  bring_up(a, b->qp_num);
  bring_up(b, a->qp_num);
  std::vector<char> more(4096);
  ibv_mr* far = ibv_reg_mr(pd, more.data(), 64, kAllRights);
  ASSERT_NE(far, nullptr);
  const uint32_t old = far->rkey;
  EXPECT_EQ(ibv_rereg_mr(far, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  ibv_pd* other = ibv_alloc_pd(context);
  ASSERT_EQ(ibv_rereg_mr(far, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, more.data(), more.size(), 0), 0);
  EXPECT_EQ(far->length, more.size());
  ibv_sge local = sge(0, 8);
  ibv_send_wr wr{.wr_id = 1,
                 .sg_list = &local,
                 .num_sge = 1,
                 .opcode = IBV_WR_RDMA_WRITE,
                 .send_flags = IBV_SEND_SIGNALED};
  wr.wr.rdma = {.remote_addr = reinterpret_cast<uint64_t>(more.data()) + 2048, .rkey = far->rkey};
  std::memcpy(memory.data(), "written", 8);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_SUCCESS);
  EXPECT_STREQ(more.data() + 2048, "written");
  // In another domain it is out of this QP's reach, and holds that one.
  ASSERT_EQ(ibv_rereg_mr(far, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(far->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  wr.wr.rdma.rkey = old;
  ASSERT_EQ(ibv_post_send(a, &wr, &bad), 0);
  EXPECT_EQ(next().status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(ibv_dereg_mr(far), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(Verbs, members_of_a_multicast_group_are_ud_and_leave_before_they_end) {
  ibv_qp* rc = make_qp(IBV_QPT_RC);
  ibv_qp* ud = make_qp(IBV_QPT_UD);
  bring_up(ud, 0);
  ibv_gid group{};
  group.raw[0] = 0xFF;
  group.raw[1] = 0x12;
  group.raw[15] = 0x01;
  EXPECT_EQ(ibv_attach_mcast(rc, &group, 0xC001), EINVAL);
  EXPECT_EQ(ibv_attach_mcast(ud, &group, 0x0001), EINVAL);
  ASSERT_EQ(ibv_attach_mcast(ud, &group, 0xC001), 0);
  EXPECT_EQ(ibv_destroy_qp(ud), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0xC001), 0);
  EXPECT_EQ(ibv_detach_mcast(ud, &group, 0xC001), EINVAL);
}

TEST_F(Verbs, xrc_delivers_to_the_queue_that_the_request_names) {
  ibv_xrcd_init_attr domain_attr{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
  ibv_xrcd* domain = ibv_open_xrcd(context, &domain_attr);
  ASSERT_NE(domain, nullptr);
  ibv_srq_init_attr_ex srq_attr{.attr = {.max_wr = 4, .max_sge = 1},
                                .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                                             IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
                                .srq_type = IBV_SRQT_XRC,
                                .pd = pd,
                                .xrcd = domain,
                                .cq = cq};
  ibv_srq* srq = ibv_create_srq_ex(context, &srq_attr);
  ASSERT_NE(srq, nullptr);
  uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
  ibv_qp_init_attr_ex target_attr{
      .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain};
  ibv_qp* target = ibv_create_qp_ex(context, &target_attr);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  ibv_qp* from = make_qp(IBV_QPT_XRC_SEND);
  bring_up(from, target->qp_num);
  bring_up(target, from->qp_num);
  ibv_sge to = sge(4096, 64);
  ibv_recv_wr recv{.wr_id = 2, .sg_list = &to, .num_sge = 1};
  ibv_recv_wr* bad_recv = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(srq, &recv, &bad_recv), 0);
  ibv_sge local = sge(0, 8);
  ibv_send_wr wr{
      .wr_id = 1, .sg_list = &local, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  wr.qp_type.xrc.remote_srqn = number;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(from, &wr, &bad), 0);
  EXPECT_EQ(two().at(2).byte_len, 8U);
  EXPECT_EQ(ibv_destroy_qp(target), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

/// Programs leave in the other fields what was on their stacks; the sanitizers see who reads that.
TEST_F(Verbs, a_change_reads_nothing_but_what_its_mask_names) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  ibv_qp_attr attr;
  std::memset(&attr, 0xA5, sizeof attr);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.pkey_index = 0;
  attr.qp_access_flags = 0;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS),
            0);
}

/// What WEFT_DEBUG=verbs prints of a change that was refused.
class Explained : public Verbs {
 protected:
  static std::string said_of(const std::function<void()>& call) {
    ::testing::internal::CaptureStderr();
    call();
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(Explained, a_refused_change_names_the_attribute) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 9;
  EXPECT_NE(said_of([&] {
              ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX);
            }).find("attr_mask lacks IBV_QP_ACCESS_FLAGS; set qp_access_flags and add the bit"),
            std::string::npos);
  const int all = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
  EXPECT_NE(said_of([&] { ibv_modify_qp(qp, &attr, all); }).find("port_num 9 out of range"),
            std::string::npos);
  EXPECT_NE(said_of([&] { ibv_modify_qp(qp, &attr, all | IBV_QP_QKEY); }).find("must not have IBV_QP_QKEY"),
            std::string::npos);
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_NE(said_of([&] {
              ibv_modify_qp(qp, &attr, IBV_QP_STATE);
            }).find("there is no such move: a QP goes RESET, INIT, RTR, RTS"),
            std::string::npos);
  ibv_send_wr wr{.wr_id = 1, .opcode = IBV_WR_SEND};
  ibv_send_wr* bad = nullptr;
  EXPECT_NE(said_of([&] { EXPECT_EQ(ibv_post_send(qp, &wr, &bad), EINVAL); }).find("state"),
            std::string::npos);
}

TEST_F(Verbs, a_child_ends_what_it_inherits_and_cannot_use_it) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ibv_wc wc{};
    const bool refused = ibv_poll_cq(cq, 1, &wc) == -1;
    _exit(refused && ibv_destroy_qp(qp) == 0 && ibv_close_device(context) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace weft::test
