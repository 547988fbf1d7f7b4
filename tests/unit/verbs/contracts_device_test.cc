// Promises of the manual pages about device, port, tables, names and numbers. docs/contracts.tsv has each
// promise with its test.
#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "tests/unit/verbs/contracts_fixture.h"

extern "C" int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed);

namespace weft::test {
namespace {

TEST_F(Contracts, every_number_has_a_name) {
  const auto named = [](const char* name) { return name != nullptr && *name != '\0'; };
  // As far as the bits of each enumeration go: beyond them a cast is undefined.
  for (int i = 0; i < 32; ++i) {
    EXPECT_TRUE(named(ibv_wc_status_str(static_cast<ibv_wc_status>(i)))) << i;
    EXPECT_TRUE(named(ibv_event_type_str(static_cast<ibv_event_type>(i)))) << i;
  }
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(named(ibv_node_type_str(static_cast<ibv_node_type>(i)))) << i;
    EXPECT_TRUE(named(ibv_port_state_str(static_cast<ibv_port_state>(i)))) << i;
  }
  EXPECT_TRUE(named(ibv_node_type_str(IBV_NODE_UNKNOWN)));
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR), "remote access error");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_WQ_FATAL), "WQ fatal error");
}

TEST_F(Contracts, every_rate_is_a_number_and_back) {
  for (int i = 1; i < 32; ++i) {
    const auto rate = static_cast<ibv_rate>(i);
    const int mbps = ibv_rate_to_mbps(rate);
    const int multiple = ibv_rate_to_mult(rate);
    EXPECT_TRUE(mbps == -1 || mbps_to_ibv_rate(mbps) == rate) << i;
    EXPECT_TRUE(multiple == -1 || mult_to_ibv_rate(multiple) == rate) << i;
  }
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_28_GBPS), 11) << "11.25, as libibverbs rounds it";
  EXPECT_EQ(mult_to_ibv_rate(11), IBV_RATE_28_GBPS);
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
  EXPECT_EQ(mbps_to_ibv_rate(1), IBV_RATE_MAX);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_14_GBPS), -1) << "no multiple of 2.5 Gb/s";
  EXPECT_EQ(mult_to_ibv_rate(0), IBV_RATE_MAX);
  EXPECT_EQ(mult_to_ibv_rate(3), IBV_RATE_MAX);
}

TEST_F(Contracts, tables_of_a_port_end_where_they_say) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(ibv_query_port(context, 0, &port), EINVAL);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  ibv_gid gid{};
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid(context, 1, 0, &gid), 0);
  EXPECT_EQ(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
  EXPECT_EQ(ibv_query_gid(context, 1, -1, &gid), -1);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 0), 0);
  EXPECT_EQ(std::memcmp(&entry.gid, &gid, sizeof gid), 0);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, static_cast<uint32_t>(port.gid_tbl_len), &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL) << "flags";
  EXPECT_EQ(ibv_query_gid_ex(context, 2, 0, &entry, 0), EINVAL);
  std::vector<ibv_gid_entry> all(static_cast<size_t>(port.gid_tbl_len) + 1);
  const ssize_t there = ibv_query_gid_table(context, all.data(), all.size(), 0);
  ASSERT_GE(there, 1);
  EXPECT_EQ(ibv_query_gid_table(context, all.data(), static_cast<size_t>(there), 0), there);
  EXPECT_EQ(ibv_query_gid_table(context, all.data(), static_cast<size_t>(there) - 1, 0), -EINVAL);
  EXPECT_EQ(all[static_cast<size_t>(there)].port_num, 0U) << "not written";
  __be16 pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, pkey), 0);
  EXPECT_EQ(ibv_query_pkey(context, 1, port.pkey_tbl_len - 1, &pkey), 0);
  EXPECT_EQ(ibv_query_pkey(context, 1, port.pkey_tbl_len, &pkey), -1);
  EXPECT_EQ(ibv_query_pkey(context, 1, -1, &pkey), -1);
  EXPECT_EQ(ibv_query_pkey(context, 2, 0, &pkey), -1);
  EXPECT_EQ(ibv_get_pkey_index(context, 1, htobe16(0x1234)), -1);
}

TEST_F(Contracts, the_clock_of_the_device_is_answered_when_asked_for) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_EQ(values.comp_mask, uint32_t{IBV_VALUES_MASK_RAW_CLOCK});
  const timespec before = values.raw_clock;
  ASSERT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_TRUE(values.raw_clock.tv_sec > before.tv_sec ||
              (values.raw_clock.tv_sec == before.tv_sec && values.raw_clock.tv_nsec >= before.tv_nsec));
  values.comp_mask = 1U << 20;
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), EINVAL);
  EXPECT_EQ(values.comp_mask, 0U);
}

TEST_F(Contracts, the_speed_of_a_port_is_that_of_its_rate) {
  uint64_t speed = 0;
  ASSERT_EQ(ibv_query_port_speed(context, 1, &speed), 0);
  EXPECT_GT(speed, 0U);
  EXPECT_EQ(ibv_query_port_speed(context, 2, &speed), EINVAL);
}

TEST_F(Contracts, regions_need_no_care_before_a_fork) {
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
  EXPECT_EQ(ibv_fork_init(), 0) << "though regions are registered";
  memory[0] = 'a';
  const pid_t child = fork();
  if (child == 0) {
    memory[0] = 'b';
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const auto two = connected(4, cq);
  ASSERT_EQ(post_write(two[0], 1), 0);
  take_good(cq, 1);
  EXPECT_EQ(memory[4096], 'a');
  end(two);
}

TEST_F(Contracts, what_the_device_has_not_says_so) {
  ibv_modify_cq_attr moderation{.attr_mask = IBV_CQ_ATTR_MODERATE,
                                .moderate = {.cq_count = 1, .cq_period = 1}};
  EXPECT_EQ(ibv_modify_cq(cq, &moderation), EOPNOTSUPP);
  ibv_qp* qp = make_qp(IBV_QPT_RC);
  ibv_ece options{.vendor_id = 1, .options = 1};
  EXPECT_EQ(ibv_set_ece(qp, &options), EOPNOTSUPP);
  ASSERT_EQ(ibv_query_ece(qp, &options), 0);
  EXPECT_EQ(options.options, 0U);
  EXPECT_EQ(ibv_set_ece(qp, &options), 0) << "what was answered is taken";
  EXPECT_EQ(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace weft::test
