// What ibv_modify_qp(3) refuses as the kernel does: ports of addresses, moves out of RESET, unknown bits. And
// which error of a QP makes no event.
#include <gmock/gmock.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "tests/unit/verbs/contracts_fixture.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

/// The path that a QP migrated to is settled before its program changes it, so that no query brings it back.
TEST_F(Contracts, a_path_that_is_changed_in_sqd_after_a_migration_is_the_one_in_force) {
  const auto two = connected(8, cq);
  give_alternate(two, {.dlid = own_lid(), .sl = 3, .port_num = 1},
                 {.dlid = own_lid(), .sl = 3, .port_num = 1});
  ibv_qp_attr attr{};
  attr.path_mig_state = IBV_MIG_MIGRATED;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_PATH_MIG_STATE), 0);
  attr = {.qp_state = IBV_QPS_SQD};
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_STATE), 0);
  attr = {};
  attr.ah_attr = {.dlid = own_lid(), .sl = 6, .port_num = 1};
  attr.timeout = 17;
  ASSERT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_AV | IBV_QP_TIMEOUT), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(two[0], &now, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
  EXPECT_EQ(now.ah_attr.sl, 6);
  EXPECT_EQ(now.timeout, 17);
  attr = {.qp_state = IBV_QPS_RTS};
  EXPECT_EQ(ibv_modify_qp(two[0], &attr, IBV_QP_STATE), 0);
  end(two);
}

class Changes : public Contracts {
 protected:
  static constexpr int kToInit = int{IBV_QP_STATE} | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  static constexpr int kToRtr = int{IBV_QP_STATE} | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

  /// An RC QP in INIT.
  ibv_qp* begun() {
    ibv_qp* qp = make_qp(IBV_QPT_RC);
    ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .port_num = 1};
    EXPECT_EQ(ibv_modify_qp(qp, &attr, kToInit), 0);
    return qp;
  }
  [[nodiscard]] ibv_qp_attr to_rtr(uint8_t port) const {
    ibv_qp_attr attr{.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256};
    attr.ah_attr = {.dlid = own_lid(), .port_num = port};
    return attr;
  }
  /// What WEFT_DEBUG=verbs says of a change that is refused with `error`.
  static std::string said_of(int error, ibv_qp* qp, ibv_qp_attr attr, int mask) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(ibv_modify_qp(qp, &attr, mask), error);
    return ::testing::internal::GetCapturedStderr();
  }
};

TEST_F(Changes, an_address_names_a_port_of_the_device) {
  ibv_qp* qp = begun();
  for (const uint8_t port : {uint8_t{0}, uint8_t{2}, uint8_t{255}})
    EXPECT_THAT(
        said_of(EINVAL, qp, to_rtr(port), kToRtr),
        HasSubstr("ah_attr.port_num must be a port of the device, from 1, and is " + std::to_string(port)));
  ibv_qp_attr attr = to_rtr(1);
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kToRtr), 0);
}

TEST_F(Changes, an_alternate_path_names_one_port_of_the_device_twice) {
  const auto two = connected(4, cq);
  ibv_qp_attr attr{.path_mig_state = IBV_MIG_REARM, .alt_timeout = 14};
  constexpr int kMask = int{IBV_QP_ALT_PATH} | IBV_QP_PATH_MIG_STATE;
  attr.alt_ah_attr = {.dlid = own_lid(), .port_num = 1};
  attr.alt_port_num = 2;
  EXPECT_THAT(said_of(EINVAL, two[0], attr, kMask),
              HasSubstr("alt_port_num must be a port of the device, from 1, and is 2"));
  attr.alt_port_num = 1;
  attr.alt_ah_attr.port_num = 0;
  EXPECT_THAT(said_of(EINVAL, two[0], attr, kMask),
              HasSubstr("alt_ah_attr.port_num must be alt_port_num, and is 0"));
  attr.alt_ah_attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(two[0], &attr, kMask), 0);
  end(two);
}

TEST_F(Changes, lead_from_reset_to_init_alone) {
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 2, .max_sge = 1}};
  ibv_srq* srq = ibv_create_srq(pd, &wanted);
  ASSERT_NE(srq, nullptr);
  ibv_qp_init_attr init = init_of(IBV_QPT_RC);
  init.srq = srq;
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  EXPECT_THAT(said_of(EINVAL, qp, {.qp_state = IBV_QPS_ERR}, IBV_QP_STATE),
              HasSubstr("qp_state of a QP in RESET must be IBV_QPS_RESET (0) or IBV_QPS_INIT (1), and is 6"));
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  ibv_async_event event{};
  while (ibv_get_async_event(context, &event) == 0) {
    EXPECT_NE(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    ibv_ack_async_event(&event);
  }
  ibv_qp_attr attr{.qp_state = IBV_QPS_RESET};
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
  attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kToInit), 0);
  attr = {.qp_state = IBV_QPS_ERR};
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0) << "from INIT it may fail";
  while (ibv_get_async_event(context, &event) == 0) ibv_ack_async_event(&event);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(Changes, with_bits_that_mean_nothing_are_not_supported) {
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  const ibv_qp_attr attr{.qp_state = IBV_QPS_INIT, .port_num = 1};
  for (const int bit : {21, 24, 26, 30}) {
    EXPECT_THAT(said_of(EOPNOTSUPP, qp, attr, kToInit | 1 << bit),
                HasSubstr("attr_mask must have known bits"))
        << bit;
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_THAT(said_of(EINVAL, qp, attr, kToInit | IBV_QP_CAP),
              HasSubstr("attr_mask must not have IBV_QP_CAP"));
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
}

/// The completion of the receive tells what happened. An event would tell it again.
TEST_F(Contracts, a_receive_that_is_too_short_is_told_by_its_completion_alone) {
  const auto two = connected(4, cq);
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  post_recv(two[1], 5, 4096, 4);
  ASSERT_EQ(post_message(two[0], 6), 0);
  std::map<uint64_t, ibv_wc_status> ended;
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = next();
    ended[wc.wr_id] = wc.status;
  }
  EXPECT_EQ(ended[5], IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(ended[6], IBV_WC_REM_INV_REQ_ERR);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ibv_async_event event{};
  while (ibv_get_async_event(context, &event) == 0) {
    EXPECT_TRUE(event.event_type == IBV_EVENT_COMM_EST || event.event_type == IBV_EVENT_PORT_ACTIVE)
        << ibv_event_type_str(event.event_type);
    ibv_ack_async_event(&event);
  }
  end(two);
}

}  // namespace
}  // namespace weft::test
