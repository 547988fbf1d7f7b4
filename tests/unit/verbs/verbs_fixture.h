// tests/unit/verbs/verbs_fixture.h -- a process that has joined a switch in another thread and talks to
// itself by the verbs, and what a program makes first.
#pragma once

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

#include "tests/support/live_fabric.h"

namespace weft::test {

/// One node for the whole program, as the library has it.
class JoinedFabric : public ::testing::Environment {
 public:
  void SetUp() override {
    fabric = std::make_unique<LiveFabric>(LinkKind::kShm, SubnetId(3));
    const std::string payload = std::to_string(fabric->endpoint_of(0x1001).link.cell_payload_bytes);
    for (const auto& [name, value] : std::map<std::string, std::string>{{"WEFT_FABRIC", fabric->endpoint()},
                                                                        {"WEFT_GUID", "1001"},
                                                                        {"WEFT_LID", "1"},
                                                                        {"WEFT_DEBUG", "verbs"},
                                                                        {"WEFT_CELL_PAYLOAD", payload}})
      ASSERT_EQ(setenv(name.c_str(), value.c_str(), 1), 0);
  }
  void TearDown() override { fabric.reset(); }

 private:
  std::unique_ptr<LiveFabric> fabric;
};
inline const auto* const kJoined =
    ::testing::AddGlobalTestEnvironment(std::make_unique<JoinedFabric>().release());

inline constexpr unsigned kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// What a program makes first.
class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 64, this, channel, 0);
    mr = ibv_reg_mr(pd, memory.data(), memory.size(), kAllRights);
    ASSERT_TRUE(pd != nullptr && channel != nullptr && cq != nullptr && mr != nullptr);
  }
  void TearDown() override {
    for (ibv_qp* qp : qps) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  /// The running test once more, in a process of its own whose environment has `variable`. @return 0: passed
  static int run_again(const char* variable, const char* value) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter = std::string("--gtest_filter=") + test.test_suite_name() + "." + test.name();
    const pid_t pid = fork();
    if (pid == 0) {
      setenv(variable, value, 1);
      execl("/proc/self/exe", test.name(), filter.c_str(), "--gtest_brief=1", nullptr);
      _exit(127);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }
  [[nodiscard]] ibv_qp_init_attr init_of(ibv_qp_type type) const {
    return {.send_cq = cq,
            .recv_cq = cq,
            .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2},
            .qp_type = type};
  }
  ibv_qp* make_qp(ibv_qp_type type) {
    ibv_qp_init_attr init = init_of(type);
    ibv_qp* qp = ibv_create_qp(pd, &init);
    EXPECT_NE(qp, nullptr);
    qps.push_back(qp);
    return qp;
  }
  [[nodiscard]] uint16_t own_lid() const {
    ibv_port_attr port;
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    return port.lid;
  }
  /// RESET to RTS, towards a QP of this process.
  void bring_up(ibv_qp* qp, uint32_t peer) const { bring_up(qp, peer, own_lid()); }
  /// Towards one at `lid`.
  void bring_up(ibv_qp* qp, uint32_t peer, uint16_t lid) const {
    bring_up(qp, peer, {.dlid = lid, .port_num = 1});
  }
  void bring_up(ibv_qp* qp, uint32_t peer, const ibv_ah_attr& way) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAllRights;
    attr.qkey = 0x11;
    const bool ud = qp->qp_type == IBV_QPT_UD;
    const int third = ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | third), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_256;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr = way;
    // To an XRC QP programs give the attributes of both roles.
    const int answers = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    const int of_way = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | answers;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | (ud ? 0 : of_way)), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    const int patience = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (ud ? 0 : patience)), 0);
  }
  [[nodiscard]] ibv_sge sge(size_t offset, uint32_t bytes) const {
    return {.addr = reinterpret_cast<uint64_t>(memory.data()) + offset, .length = bytes, .lkey = mr->lkey};
  }
  void post_recv(ibv_qp* qp, uint64_t wr_id, size_t offset, uint32_t bytes) const {
    ibv_sge to = sge(offset, bytes);
    ibv_recv_wr wr{.wr_id = wr_id, .sg_list = &to, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  /// The next completion, however long it takes.
  [[nodiscard]] ibv_wc next() const {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    return wc;
  }
  /// Completions of a message, by its two work requests.
  std::map<uint64_t, ibv_wc> two() const {
    std::map<uint64_t, ibv_wc> out;
    for (int i = 0; i < 2; ++i) {
      const ibv_wc wc = next();
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
      out[wc.wr_id] = wc;
    }
    return out;
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<char> memory = std::vector<char>(8192);
  std::vector<ibv_qp*> qps;
};

}  // namespace weft::test
