// What a sender left undone -- the checksum, the segmentation -- stays written in front of its frame on every
// way through the two halves: it is the receiver's only word of it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/driver_world.h"
#include "tests/support/unfinished_frame.h"

namespace weft::test {
namespace {

using Bytes = std::vector<std::byte>;

class OffloadPassage : public ::testing::TestWithParam<bool> {
 protected:
  OffloadPassage() : world(config()) { world.run_until_open(); }
  static DriverWorldConfig config() {
    DriverWorldConfig config;
    config.hosts = 3;
    config.host_offloads = config.nic_offloads = kOffloadsAll;
    return config;
  }
  DriverWorld world;
};

TEST_P(OffloadPassage, from_the_lan_to_one_host) {
  const Bytes frame = unfinished(host_mac(0), kLanMac, GetParam());
  world.nic().inject_raw(frame);
  world.run();
  EXPECT_EQ(world.os(0).written, std::vector<Bytes>{frame});
}

TEST_P(OffloadPassage, from_the_lan_to_the_host_that_did_not_get_the_last_frame) {
  for (const uint32_t host : {0U, 1U, 2U, 1U, 0U}) {
    const Bytes frame = unfinished(host_mac(host), kLanMac, GetParam());
    world.os(host).written.clear();
    world.nic().inject_raw(frame);
    world.run();
    EXPECT_EQ(world.os(host).written, std::vector<Bytes>{frame}) << host;
  }
}

TEST_P(OffloadPassage, from_the_lan_to_all_hosts) {
  const Bytes frame = unfinished(kMacBroadcast, kLanMac, GetParam());
  world.nic().inject_raw(frame);
  world.run();
  for (size_t host = 0; host < 3; ++host)
    EXPECT_EQ(world.os(host).written, std::vector<Bytes>{frame}) << host;
}

TEST_P(OffloadPassage, from_a_host_to_the_lan) {
  const Bytes frame = unfinished(kLanMac, host_mac(0), GetParam());
  world.os(0).inject_raw(frame);
  world.run();
  EXPECT_EQ(world.nic().written, std::vector<Bytes>{frame});
}

TEST_P(OffloadPassage, from_a_host_to_all_others_and_the_lan) {
  const Bytes frame = unfinished(kMacBroadcast, host_mac(0), GetParam());
  world.os(0).inject_raw(frame);
  world.run();
  EXPECT_EQ(world.nic().written, std::vector<Bytes>{frame});
  EXPECT_TRUE(world.os(0).written.empty());
  for (size_t host = 1; host < 3; ++host)
    EXPECT_EQ(world.os(host).written, std::vector<Bytes>{frame}) << host;
}

/// Elements may be larger than the memory in which the unit cuts a frame.
TEST(FramesToCut, longer_than_the_memory_for_them_are_dropped) {
  DriverWorldConfig config;
  config.hosts = 2;
  config.pools = {{2048, 16}, {131072, 4}};
  config.frame_bytes_max = 131072 - kVnetBytes;
  config.host_offloads = config.nic_offloads = kOffloadsAll;
  DriverWorld world(config);
  world.run_until_open();
  world.host(1).controller().set_features(Offload::kNone);
  world.run();
  for (const uint32_t frame_bytes : {kSegmenterBytesMax - kVnetBytes + 1, config.frame_bytes_max}) {
    world.os(0).inject_raw(unfinished(host_mac(1), host_mac(0), true, 1400, frame_bytes));
  }
  const Bytes last = make_ethernet(host_mac(1), host_mac(0), 7);
  world.os(0).inject(last);
  world.run_for(std::chrono::milliseconds(20), std::chrono::microseconds(20));
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kTooLongForHost), 2U);
  EXPECT_EQ(DriverWorld::taken(world.os(1)), std::vector<Bytes>{last});
}

INSTANTIATE_TEST_SUITE_P(Unfinished, OffloadPassage, ::testing::Bool());

/// The pieces of a GSO frame are held to the NIC's MTU like any frame; a tag is allowed on top.
TEST(UnitMtu, a_frame_whose_pieces_are_longer_than_the_mtu_is_dropped_and_counted) {
  DriverWorldConfig config;
  config.host_offloads = config.nic_offloads = kOffloadsAll;
  DriverWorld world(config);
  world.run_until_open();
  ASSERT_TRUE(world.nic().set_mtu(1000).ok());
  constexpr uint16_t kLongest = 14 + 4 + 1000 - 54;
  uint64_t refused = 0;
  for (const auto& [segment, passes] : {std::pair{kLongest, true}, {uint16_t{kLongest + 1}, false}}) {
    const Bytes frame = unfinished(kLanMac, host_mac(0), true, segment, 5000);
    world.os().inject_raw(frame);
    world.run();
    refused += passes ? 0 : 1;
    EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kTooLongForMtu), refused);
    EXPECT_EQ(world.nic().written.size(), 1U);
  }
}

}  // namespace
}  // namespace weft::test
