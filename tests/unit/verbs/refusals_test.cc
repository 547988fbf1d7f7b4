// What calls that make or change an object say of arguments that cannot be, and of limits that are reached:
// EINVAL for the first, ENOMEM for the second, as the manual pages and the kernel's providers have it.
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/requirement.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

struct Wrong {
  std::string call;
  std::function<bool()> made;  // true: it was not refused
};

class Refusals : public Verbs {
 protected:
  static void all_are(int error, const std::vector<Wrong>& calls) {
    for (const Wrong& wrong : calls) {
      errno = 0;
      EXPECT_FALSE(wrong.made()) << wrong.call;
      EXPECT_EQ(errno, error) << wrong.call;
    }
  }
  /// @param page  address of the first byte for peers, without its place in the page
  Wrong region(const std::string& what, size_t bytes, uint64_t page, unsigned access) {
    const uint64_t iova = page | (reinterpret_cast<uintptr_t>(memory.data()) & 4095);
    return {"ibv_reg_mr_iova2: " + what,
            [=, this] { return ibv_reg_mr_iova2(pd, memory.data(), bytes, iova, access) != nullptr; }};
  }
  Wrong pair(const std::string& what, ibv_qp_cap cap) {
    return {"ibv_create_qp: " + what, [=, this] {
              ibv_qp_init_attr init = init_of(IBV_QPT_RC);
              init.cap = cap;
              return ibv_create_qp(pd, &init) != nullptr;
            }};
  }
  Wrong queue(const std::string& what, ibv_srq_attr attr) {
    return {"ibv_create_srq: " + what, [=, this] {
              ibv_srq_init_attr init{.srq_context = nullptr, .attr = attr};
              return ibv_create_srq(pd, &init) != nullptr;
            }};
  }
  Wrong way(const std::string& what, ibv_ah_attr attr) {
    return {"ibv_create_ah: " + what, [=, this]() mutable { return ibv_create_ah(pd, &attr) != nullptr; }};
  }
};

TEST_F(Refusals, follow_the_adapters_state_and_not_the_struct_of_the_program) {
  covers("SAN-LMP-07");
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  qp->state = IBV_QPS_RTS;  // fields that a program may read
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(memory.data()), .length = 8, .lkey = mr->lkey};
  ibv_send_wr send{};
  send.sg_list = &piece;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(qp, &send, &bad), EINVAL) << "it is in RESET";
  EXPECT_EQ(bad, &send);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
}

TEST_F(Refusals, of_regions_that_cannot_be_are_not_a_lack_of_memory) {
  constexpr unsigned kLocal = IBV_ACCESS_LOCAL_WRITE;
  all_are(EINVAL,
          {region("no bytes", 0, 0x1000, kLocal),
           region("past the end of the address space", memory.size(), UINT64_MAX & ~uint64_t{4095}, kLocal),
           region("remote write without local write", 8, 0x1000, IBV_ACCESS_REMOTE_WRITE),
           region("remote atomic without local write", 8, 0x1000, IBV_ACCESS_REMOTE_ATOMIC),
           region("an unknown right", 8, 0x1000, kLocal | 1U << 19)});
}

TEST_F(Refusals, of_queues_beyond_the_limits_name_the_argument) {
  ibv_device_attr most;
  ASSERT_EQ(ibv_query_device(context, &most), 0);
  const auto wrs = static_cast<uint32_t>(most.max_qp_wr);
  const auto sges = static_cast<uint32_t>(most.max_sge);
  const auto srq_wrs = static_cast<uint32_t>(most.max_srq_wr);
  all_are(EINVAL, {pair("max_send_wr", {wrs + 1, 1, 1, 1, 0}),
                   pair("max_recv_wr", {1, wrs + 1, 1, 1, 0}),
                   pair("max_send_sge", {1, 1, sges + 1, 1, 0}),
                   pair("max_recv_sge", {1, 1, 1, sges + 1, 0}),
                   pair("max_inline_data", {1, 1, 1, 1, 1U << 20}),
                   queue("no WRs", {.max_wr = 0, .max_sge = 1}),
                   queue("max_wr", {.max_wr = srq_wrs + 1, .max_sge = 1}),
                   queue("max_sge", {.max_wr = 1, .max_sge = sges + 1}),
                   {"ibv_create_cq: no entries",
                    [&] { return ibv_create_cq(context, 0, nullptr, nullptr, 0) != nullptr; }},
                   {"ibv_create_cq: a negative number",
                    [&] { return ibv_create_cq(context, -1, nullptr, nullptr, 0) != nullptr; }},
                   {"ibv_create_cq: comp_vector",
                    [&] { return ibv_create_cq(context, 1, nullptr, nullptr, -1) != nullptr; }},
                   {"ibv_resize_cq: no entries", [&] { return ibv_resize_cq(cq, 0) == 0; }},
                   {"ibv_resize_cq: too many", [&] { return ibv_resize_cq(cq, most.max_cqe + 1) == 0; }}});
}

TEST_F(Refusals, of_changes_of_a_shared_receive_queue) {
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 4, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &init);
  ASSERT_NE(srq, nullptr);
  const auto change = [&](ibv_srq_attr attr, int mask) { return ibv_modify_srq(srq, &attr, mask); };
  EXPECT_EQ(change({.max_wr = 1U << 30}, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(change({.max_wr = 0}, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(change({.srq_limit = 5}, IBV_SRQ_LIMIT), EINVAL) << "more than it holds";
  EXPECT_EQ(change({.srq_limit = 1}, 1 << 7), EINVAL) << "no such attribute";
  EXPECT_EQ(change({.max_wr = 64, .srq_limit = 5}, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Refusals, of_addresses_windows_and_places_that_are_not_there) {
  ibv_gid gid;
  __be16 pkey = 0;
  all_are(EINVAL,
          {way("no LID", {.dlid = 0, .port_num = 1}),
           way("no such port", {.dlid = 1, .port_num = 2}),
           way("no such level", {.dlid = 1, .sl = 16, .port_num = 1}),
           way("no such GID of its own",
               {.grh = {.sgid_index = 1}, .dlid = own_lid(), .is_global = 1, .port_num = 1}),
           {"ibv_alloc_mw: type 3", [&] { return ibv_alloc_mw(pd, static_cast<ibv_mw_type>(3)) != nullptr; }},
           {"ibv_query_gid: no such port", [&] { return ibv_query_gid(context, 2, 0, &gid) == 0; }},
           {"ibv_query_gid: no such entry", [&] { return ibv_query_gid(context, 1, 99, &gid) == 0; }},
           {"ibv_query_pkey: no such entry", [&] { return ibv_query_pkey(context, 1, -1, &pkey) == 0; }}});
}

/// As many as there can be: one more is a lack of memory, and all go again.
TEST_F(Refusals, of_one_object_too_many_are_a_lack_of_memory) {
  ibv_device_attr most;
  ASSERT_EQ(ibv_query_device(context, &most), 0);
  std::vector<ibv_pd*> pds;
  errno = 0;
  for (ibv_pd* made = ibv_alloc_pd(context); made != nullptr; made = ibv_alloc_pd(context))
    pds.push_back(made);
  EXPECT_EQ(errno, ENOMEM) << "ibv_alloc_pd";
  EXPECT_LE(pds.size(), static_cast<size_t>(most.max_pd));
  for (ibv_pd* made : pds) EXPECT_EQ(ibv_dealloc_pd(made), 0);
  std::vector<ibv_srq*> srqs;
  ibv_srq_init_attr init{.srq_context = nullptr, .attr = {.max_wr = 1, .max_sge = 1}};
  errno = 0;
  for (ibv_srq* made = ibv_create_srq(pd, &init); made != nullptr; made = ibv_create_srq(pd, &init))
    srqs.push_back(made);
  EXPECT_EQ(errno, ENOMEM) << "ibv_create_srq";
  for (ibv_srq* made : srqs) EXPECT_EQ(ibv_destroy_srq(made), 0);
  std::vector<ibv_cq*> cqs;
  errno = 0;
  for (ibv_cq* made = ibv_create_cq(context, 1, nullptr, nullptr, 0); made != nullptr;
       made = ibv_create_cq(context, 1, nullptr, nullptr, 0))
    cqs.push_back(made);
  EXPECT_EQ(errno, ENOMEM) << "ibv_create_cq";
  for (ibv_cq* made : cqs) EXPECT_EQ(ibv_destroy_cq(made), 0);
}

/// What WEFT_DEBUG=verbs says of `call`, which is refused.
std::string said_of(const std::function<int()>& call) {
  ::testing::internal::CaptureStderr();
  EXPECT_NE(call(), 0);
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(Refusals, of_posts_name_the_value_and_what_is_allowed) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_qp_init_attr init;
  ibv_qp_attr unused;
  ASSERT_EQ(ibv_query_qp(qp, &unused, IBV_QP_CAP, &init), 0);
  std::vector<ibv_sge> segments(init.cap.max_send_sge + 1, {.addr = 0, .length = 8, .lkey = mr->lkey});
  ibv_sge wide{.addr = reinterpret_cast<uint64_t>(memory.data()),
               .length = init.cap.max_inline_data + 1,
               .lkey = mr->lkey};
  ibv_send_wr* bad = nullptr;
  const auto post = [&](ibv_send_wr wr) { return ibv_post_send(qp, &wr, &bad); };
  const std::string sges = std::to_string(segments.size());
  EXPECT_THAT(said_of([&] {
                return post({.sg_list = segments.data(),
                             .num_sge = static_cast<int>(segments.size()),
                             .opcode = IBV_WR_SEND});
              }),
              HasSubstr(": " + sges + " segments, and the QP was made for at most " +
                        std::to_string(init.cap.max_send_sge) + " (max_send_sge)"));
  EXPECT_THAT(
      said_of([&] {
        return post({.sg_list = &wide, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE});
      }),
      HasSubstr(": " + std::to_string(wide.length) + " bytes inline, and the QP was made for at most " +
                std::to_string(init.cap.max_inline_data) + " (max_inline_data)"));
  EXPECT_THAT(
      said_of([&] {
        return post({.sg_list = segments.data(), .num_sge = 2, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD});
      }),
      HasSubstr("2 segments of 16 bytes: an atomic operation has one segment of 8 bytes"));
  EXPECT_THAT(
      said_of([&] {
        return post(
            {.sg_list = &wide, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_INLINE});
      }),
      HasSubstr("IBV_SEND_INLINE is for data that leave this side"));
  EXPECT_THAT(said_of([&] { return post({.sg_list = &wide, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}); }),
              HasSubstr(": rkey 0x0: the request needs mr->rkey"));
  ibv_send_wr nowhere{.sg_list = segments.data(), .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
  nowhere.wr.atomic.remote_addr = UINT64_MAX;
  nowhere.wr.atomic.rkey = 0x1234;
  EXPECT_THAT(said_of([&] { return post(nowhere); }), HasSubstr(": rkey 0x1234: the request needs mr->rkey"));
  EXPECT_THAT(said_of([&] { return post({.num_sge = -1, .opcode = IBV_WR_SEND}); }),
              HasSubstr("a negative num_sge"));
  ibv_qp* early = make_qp(IBV_QPT_RC);
  ibv_send_wr wr{.sg_list = segments.data(), .num_sge = 1, .opcode = IBV_WR_SEND};
  EXPECT_THAT(said_of([&] { return ibv_post_send(early, &wr, &bad); }),
              HasSubstr(": the QP is in state RESET: requests are taken from RTS on"));
  ibv_recv_wr receive{.sg_list = segments.data(), .num_sge = 3};
  ibv_recv_wr* bad_receive = nullptr;
  EXPECT_THAT(said_of([&] { return ibv_post_recv(early, &receive, &bad_receive); }),
              HasSubstr(": the QP is in state RESET: receives are taken from INIT on"));
}

/// A queue that is full says how many it holds, and what makes room.
TEST_F(Refusals, of_posts_to_full_queues_say_what_makes_room) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_send_wr send{.opcode = IBV_WR_RDMA_WRITE};
  send.wr.rdma.rkey = mr->rkey;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_recv_wr receive{};
  ibv_send_wr* bad = nullptr;
  ibv_recv_wr* bad_receive = nullptr;
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(ibv_post_send(qp, &send, &bad), 0);
    ASSERT_EQ(ibv_post_recv(qp, &receive, &bad_receive), 0);
  }
  EXPECT_THAT(
      said_of([&] { return ibv_post_send(qp, &send, &bad); }),
      HasSubstr("the send queue is full: 8 requests (max_send_wr) whose completions were not polled; call "
                "ibv_poll_cq"));
  EXPECT_THAT(said_of([&] { return ibv_post_recv(qp, &receive, &bad_receive); }),
              HasSubstr("the receive queue is full: 8 receives (max_recv_wr); poll the CQ"));
}

TEST_F(Refusals, of_objects_in_use_and_of_memory_say_what_to_do) {
  static const char kConstant[64] = "constant";
  EXPECT_THAT(
      said_of([&] { return ibv_dealloc_pd(pd); }),
      HasSubstr("regions, QPs, SRQs, windows or address handles of this PD still exist: destroy them"));
  EXPECT_THAT(said_of([&] {
                return ibv_reg_mr(pd, const_cast<char*>(kConstant), 64, int{IBV_ACCESS_LOCAL_WRITE}) ==
                       nullptr;
              }),
              HasSubstr("or is read-only (a string constant, a const array) and access 0x1 has"));
  EXPECT_THAT(
      said_of([&] {
        return ibv_reg_mr(pd, memory.data(), memory.size(), int{IBV_ACCESS_REMOTE_WRITE}) == nullptr;
      }),
      HasSubstr(
          "ibv_reg_mr: access 0x2: remote write and atomic need local write: add IBV_ACCESS_LOCAL_WRITE"));
}

TEST_F(Refusals, of_ends_and_addresses_name_the_values) {
  EXPECT_THAT(said_of([&] { return ibv_destroy_comp_channel(channel); }),
              HasSubstr("ibv_destroy_comp_channel: 1 CQs still use it: call ibv_destroy_cq first"));
  make_qp(IBV_QPT_RC);
  EXPECT_THAT(
      said_of([&] { return ibv_destroy_cq(cq); }),
      HasSubstr("ibv_destroy_cq: QPs or XRC SRQs still use it: call ibv_destroy_qp or ibv_destroy_srq"));
  ibv_ah_attr attr{.dlid = 1, .port_num = 2};
  EXPECT_THAT(said_of([&] { return ibv_create_ah(pd, &attr) == nullptr; }),
              HasSubstr("ibv_create_ah: port 2; 1 to 1 are possible"));
}

TEST_F(Refusals, of_changes_with_a_wrong_code_name_the_value) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  bring_up(qp, qp->qp_num);
  ibv_qp_attr attr{};
  const uint32_t bytes = 1024;
  std::memcpy(&attr.path_mtu, &bytes, sizeof attr.path_mtu);
  attr.timeout = 32;
  attr.min_rnr_timer = 33;
  EXPECT_THAT(
      said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_PATH_MTU); }),
      HasSubstr("path_mtu must be a code, not a number of bytes: IBV_MTU_256 (1) to IBV_MTU_4096 (5), and "
                "is 1024"));
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_TIMEOUT); }),
              HasSubstr("timeout must be a code of 5 bits, 0 to 31, and is 32"));
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER); }),
              HasSubstr("min_rnr_timer must be a code of 5 bits, 0 to 31, and is 33"));
}

TEST_F(Refusals, of_ways_from_a_gid_that_the_port_does_not_have_name_the_index) {
  ibv_ah_attr way{.grh = {.sgid_index = 99}, .dlid = own_lid(), .is_global = 1, .port_num = 1};
  EXPECT_THAT(said_of([&] { return ibv_create_ah(pd, &way) == nullptr; }),
              HasSubstr("ibv_create_ah: grh.sgid_index 99: the port's GID table has 1 entries, from 0"));
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  ibv_qp_attr attr{.ah_attr = way, .alt_ah_attr = way};
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_AV); }),
              HasSubstr(": ah_attr.grh.sgid_index must be an index of the port's GID table (gid_tbl_len), "
                        "and is 99"));
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH); }),
              HasSubstr(": alt_ah_attr.grh.sgid_index must be an index of the port's GID table "
                        "(gid_tbl_len), and is 99"));
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_AV), EINVAL);
  way.is_global = 0;  // the index then means nothing
  ibv_ah* local = ibv_create_ah(pd, &way);
  ASSERT_NE(local, nullptr);
  EXPECT_EQ(ibv_destroy_ah(local), 0);
}

TEST_F(Refusals, of_changes_name_what_forbids_them) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .qp_access_flags = kAllRights, .pkey_index = 1, .port_num = 1};
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, kInit); }),
              HasSubstr("RESET to INIT: pkey_index 1: the port's table has no partition there"));
  bring_up(qp, qp->qp_num);
  attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE); }),
              HasSubstr("cur_qp_state says SQD, and the QP is in RTS"));
  attr = {.qp_state = IBV_QPS_RTS, .path_mig_state = IBV_MIG_REARM};
  EXPECT_THAT(said_of([&] { return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE); }),
              HasSubstr("path_mig_state: no alternate path is loaded"));
}

}  // namespace
}  // namespace weft::test
