// What `weft nic` asks of a host and is told: the wish reaches the unit, the unit's answers reach the report.
#include "host_driver/nic_report.h"

#include <gtest/gtest.h>

#include "tests/support/driver_world.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

constexpr MacAddress kWanted{0x01, 0, 0x5E, 0, 0, 9};

/// Asks, and lets the unit answer.
control::NicReport answered(DriverWorld& world, const control::NicWish& wish = {}) {
  EXPECT_TRUE(host::ask_nic(world.host(), wish).ok());
  EXPECT_TRUE(host::report_nic(world.host()).value().pending) << "the answers take a round trip";
  world.run();
  const control::NicReport report = host::report_nic(world.host()).value();
  EXPECT_FALSE(report.pending);
  return report;
}

TEST(NicReport, says_what_the_unit_says) {
  DriverWorldConfig config;
  config.host_offloads = Offload::kChecksum;
  config.nic_offloads = Offload::kChecksum | Offload::kTso4;
  DriverWorld world(config);
  world.run_until_open();
  const control::NicReport report = answered(world);
  EXPECT_EQ(report.unit_lid, 1U);
  EXPECT_EQ(report.reads, 1U);
  EXPECT_TRUE(report.link_up);
  EXPECT_EQ(report.mac, weft::to_string(host_mac(0)));
  EXPECT_EQ(report.mtu, 1500U);
  EXPECT_EQ(report.nic_mtu, 9000U);
  EXPECT_EQ(report.offloads, (std::vector<std::string>{"checksum"}));
  EXPECT_EQ(report.nic_offloads, (std::vector<std::string>{"checksum", "tso4"}));
  EXPECT_FALSE(report.promiscuous);
  EXPECT_TRUE(report.all_multicast);
  EXPECT_TRUE(report.multicast.empty());
  EXPECT_EQ(report.statistics, NicStatistics{});
  EXPECT_TRUE(report.faults.empty());
  world.nic().carrier_up = false;
  world.run();
  EXPECT_FALSE(answered(world).link_up);
}

TEST(NicReport, statistics_are_read_before_they_are_cleared) {
  DriverWorld world;
  world.run_until_open();
  for (uint32_t i = 0; i < 3; ++i) world.os().inject(make_ethernet(kLanMac, host_mac(0), i));
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 9));
  world.run();
  control::NicWish clear;
  clear.clear = true;
  const NicStatistics before = answered(world, clear).statistics;
  EXPECT_EQ(before, (NicStatistics{.frames_in = 1, .bytes_in = 200, .frames_out = 3, .bytes_out = 600}));
  EXPECT_EQ(answered(world).statistics, NicStatistics{});
}

TEST(NicReport, a_wish_changes_the_filters_it_names_and_no_other) {
  DriverWorldConfig config;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  control::NicWish groups;
  groups.all_multicast = false;
  groups.multicast = std::vector<std::string>{weft::to_string(kWanted)};
  control::NicReport report = answered(world, groups);
  EXPECT_FALSE(report.promiscuous || report.all_multicast);
  EXPECT_EQ(report.multicast, *groups.multicast);
  world.nic().inject(make_ethernet(kWanted, kLanMac, 1));
  world.nic().inject(make_ethernet({0x33, 0x33, 0, 0, 0, 1}, kLanMac, 2));
  world.nic().inject(make_ethernet(kLanMac, kWanted, 3));
  world.run();
  EXPECT_EQ(world.os().written.size(), 1U);
  control::NicWish all;
  all.promiscuous = true;
  report = answered(world, all);
  EXPECT_TRUE(report.promiscuous);
  EXPECT_EQ(report.multicast, *groups.multicast);
  world.nic().inject(make_ethernet(kLanMac, host_mac(5), 4));
  world.run();
  EXPECT_EQ(world.os().written.size(), 2U);
}

TEST(NicReport, what_is_not_as_the_host_wants_it_is_said) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  ASSERT_TRUE(world.nic().set_mtu(1400).ok());
  world.nic().refuse_settings = true;
  ASSERT_TRUE(world.os().set_mac(host_mac(1)).ok());
  world.os().switch_filters(false, true);
  control::NicWish wish;
  wish.promiscuous = true;
  wish.all_multicast = false;
  const control::NicReport report = answered(world, wish);
  EXPECT_FALSE(report.promiscuous);
  EXPECT_TRUE(report.all_multicast);
  EXPECT_EQ(report.mtu, 1400U);
  EXPECT_EQ(report.mac, weft::to_string(host_mac(0)));
  const std::vector<std::string> expected{"write bridge = true if something behind this host bridges",
                                          "'failed' to the filters", "wants all multicast itself",
                                          "has not taken the interface's address", "has MTU 1500"};
  ASSERT_EQ(report.faults.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(report.faults[i].find(expected[i]), std::string::npos) << report.faults[i];
  }
}

TEST(NicReport, an_interface_with_a_larger_mtu_than_the_fabric_carries_is_told) {
  DriverWorld world;
  world.run_until_open();
  world.os().show_mtu(host::kMtuBytesMax);
  EXPECT_TRUE(answered(world).faults.empty());
  world.os().show_mtu(host::kMtuBytesMax + 1);
  const control::NicReport report = answered(world);
  ASSERT_EQ(report.faults.size(), 1U);
  EXPECT_NE(report.faults[0].find("has MTU 9001, the fabric carries 9000"), std::string::npos);
}

TEST(NicReport, refuses_what_cannot_be) {
  DriverWorld world;
  EXPECT_NE(host::ask_nic(world.host(), {}).error().text.find("is connecting"), std::string::npos);
  EXPECT_FALSE(host::report_nic(world.host()).ok());
  world.run_until_open();
  control::NicWish wish;
  wish.all_multicast = false;
  for (const auto& text : {"02:00:00:00:00:01", "x", ""}) {
    wish.multicast = std::vector<std::string>{text};
    EXPECT_NE(host::ask_nic(world.host(), wish).error().text.find("is no multicast address"),
              std::string::npos);
  }
  wish.multicast = std::vector<std::string>(kMulticastFiltersMax + 1, weft::to_string(kWanted));
  EXPECT_FALSE(host::ask_nic(world.host(), wish).ok());
  EXPECT_TRUE(world.host().controller().settings().filters.all_multicast) << "nothing was changed";
  EXPECT_TRUE(world.host().controller().settled()) << "nothing was asked";
  world.nodes[world.units[0].node].paused = true;
  ASSERT_TRUE(host::ask_nic(world.host(), {}).ok());
  world.run_for(3s);
  EXPECT_FALSE(host::report_nic(world.host()).ok()) << "no answer will come";
}

}  // namespace
}  // namespace weft::test
