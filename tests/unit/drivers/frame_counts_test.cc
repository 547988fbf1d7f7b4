// Counters of the two driver halves that count frames and the carrier.
#include <gtest/gtest.h>

#include "tests/support/driver_world.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using host::HostCounter;
using iou::UnitCounter;

struct Counted {
  uint64_t to_lan = 0;
  uint64_t to_hosts = 0;
  uint64_t between_hosts = 0;
  bool operator==(const Counted&) const = default;
};

class FrameCounts : public ::testing::Test {
 protected:
  FrameCounts() : world(two_hosts()) { world.run_until_open(); }
  static DriverWorldConfig two_hosts() {
    DriverWorldConfig config;
    config.hosts = 2;
    return config;
  }
  void send(uint32_t host, const MacAddress& to, uint32_t frames = 1) {
    for (uint32_t i = 0; i < frames; ++i) world.os(host).inject(make_ethernet(to, host_mac(host), i));
    world.run();
  }
  Counted unit() {
    const auto& counters = world.unit().counters();
    return {counters.get(UnitCounter::kFramesToLan), counters.get(UnitCounter::kFramesToHosts),
            counters.get(UnitCounter::kFramesBetweenHosts)};
  }
  uint64_t host(uint32_t index, HostCounter counter) { return world.host(index).counters().get(counter); }

  DriverWorld world;
};

TEST_F(FrameCounts, a_frame_counts_where_it_enters_and_by_where_the_unit_takes_it) {
  send(0, kLanMac, 3);
  EXPECT_EQ(host(0, HostCounter::kFramesToUnit), 3U);
  EXPECT_EQ(unit(), (Counted{.to_lan = 3}));
  for (uint32_t i = 0; i < 2; ++i) world.nic().inject(make_ethernet(host_mac(1), kLanMac, i));
  world.run();
  EXPECT_EQ(unit(), (Counted{.to_lan = 3, .to_hosts = 2}));
  EXPECT_EQ(host(1, HostCounter::kFramesToOs), 2U);
  EXPECT_EQ(host(0, HostCounter::kFramesToOs), 0U);
  send(0, host_mac(1));
  EXPECT_EQ(unit(), (Counted{.to_lan = 3, .to_hosts = 3, .between_hosts = 1}));
  EXPECT_EQ(host(1, HostCounter::kFramesToOs), 3U);
  send(1, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF});
  EXPECT_EQ(unit(), (Counted{.to_lan = 4, .to_hosts = 4, .between_hosts = 2})) << "a broadcast goes to both";
  EXPECT_EQ(host(0, HostCounter::kFramesToOs), 1U);
  EXPECT_EQ(host(0, HostCounter::kFramesToUnit), 4U);
  EXPECT_EQ(host(1, HostCounter::kFramesToUnit), 1U);
}

TEST_F(FrameCounts, each_change_of_the_carrier_counts_once) {
  const uint64_t up = host(0, HostCounter::kCarrierUp);
  const uint64_t down = host(0, HostCounter::kCarrierDown);
  EXPECT_EQ(up, 1U) << "with its session";
  for (uint64_t times = 1; times <= 2; ++times) {
    world.nic().carrier_up = false;
    world.run_for(10ms);
    EXPECT_EQ(host(0, HostCounter::kCarrierDown), down + times);
    EXPECT_EQ(host(0, HostCounter::kCarrierUp), up + times - 1);
    world.nic().carrier_up = true;
    world.run_for(10ms);
    EXPECT_EQ(host(0, HostCounter::kCarrierUp), up + times);
  }
}

}  // namespace
}  // namespace weft::test
