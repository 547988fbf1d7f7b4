// Rules of decisions sections 2 and 4 for the driver halves: shared units, hostile hosts, back-pressure,
// carrier, replay, offloads.
#include <gtest/gtest.h>

#include "base/net/checksum.h"
#include "base/net/vnet_header.h"
#include "tests/support/driver_world.h"
#include "tests/support/requirement.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;
constexpr MacAddress kForeign{0x02, 0, 0, 0, 0x66, 0x66};
constexpr MacAddress kGroup{0x01, 0, 0x5E, 0, 0, 0x05};

DriverWorldConfig hosts(uint32_t count) {
  DriverWorldConfig config;
  config.hosts = count;
  return config;
}

TEST(Shared, unit_switches_between_its_hosts_and_floods_broadcast) {
  covers("DECISIONS-2.22");
  DriverWorld world(hosts(3));
  world.run_until_open();
  world.os(0).inject(make_ethernet(host_mac(1), host_mac(0), 1));
  world.os(0).inject(make_ethernet(kMacBroadcast, host_mac(0), 2));
  world.os(0).inject(make_ethernet(host_mac(0), host_mac(0), 4));  // to itself: no other host receives it
  world.run(1000);
  EXPECT_EQ(DriverWorld::taken(world.os(1)), (Frames{make_ethernet(host_mac(1), host_mac(0), 1),
                                                     make_ethernet(kMacBroadcast, host_mac(0), 2)}));
  EXPECT_EQ(DriverWorld::taken(world.os(2)), Frames{make_ethernet(kMacBroadcast, host_mac(0), 2)});
  EXPECT_TRUE(world.os(0).written.empty());  // nothing returns to the sender
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kMacBroadcast, host_mac(0), 2)});
  world.nic().inject(make_ethernet(kMacBroadcast, kLanMac, 3));
  world.run(1000);
  for (uint32_t h = 0; h < 3; ++h) {
    EXPECT_EQ(DriverWorld::taken(world.os(h)), Frames{make_ethernet(kMacBroadcast, kLanMac, 3)});
  }
}

TEST(Shared, a_taken_address_is_refused) {
  covers("DECISIONS-2.22");
  DriverWorldConfig config = hosts(2);
  config.macs = {host_mac(0), host_mac(0)};
  DriverWorld world(config);
  world.run_for(2s);
  const bool first = world.session(0).state() == session::SessionState::kOpen;
  const bool second = world.session(1).state() == session::SessionState::kOpen;
  EXPECT_NE(first, second);
  EXPECT_GT(world.units[0].acceptor->counters().get(session::AcceptorCounter::kRefusedMacTaken), 0u);
  // An open session cannot take that address by configuration either.
  DriverWorld other(hosts(2));
  other.run_until_open();
  other.host(1).controller().set_mac(host_mac(0));
  other.run();
  EXPECT_EQ(other.host(1).controller().last_status(host::NicRequest::kSetMac), CfgStatus::kNotPermitted);
}

TEST(Shared, a_foreign_source_address_is_dropped_unless_the_unit_bridges) {
  covers("DECISIONS-2.22");
  for (const bool bridge : {false, true}) {
    DriverWorldConfig config;
    config.policy.bridge = bridge;
    DriverWorld world(config);
    world.run_until_open();
    world.os().inject(make_ethernet(kLanMac, kForeign, 1));
    world.os().inject(make_ethernet(kLanMac, kGroup, 2));
    world.os().inject(make_ethernet(kLanMac, host_mac(0), 3));
    world.run();
    EXPECT_EQ(world.nic().written.size(), bridge ? 2u : 1u);
    EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kForeignSource), bridge ? 0u : 1u);
    EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kGroupSource), 1u);
    EXPECT_EQ(world.unit().clients()[0].statistics.errors, bridge ? 1u : 2u);
  }
}

TEST(Shared, promiscuous_only_where_the_topology_allows_it) {
  covers("DECISIONS-4");
  for (const bool allowed : {false, true}) {
    DriverWorldConfig config = hosts(2);
    config.policy.promiscuous_allowed = allowed;
    DriverWorld world(config);
    world.run_until_open();
    NicFilters filters;
    filters.promiscuous = true;
    world.host(1).controller().set_filters(filters);
    world.run();
    EXPECT_EQ(world.host(1).controller().promiscuous_refused(), !allowed);
    EXPECT_EQ(world.unit().config().counters().get(iou::ConfigCounter::kPromiscuousRefused),
              allowed ? 0u : 1u);
    world.nic().inject(make_ethernet(host_mac(0), kLanMac, 1));
    world.os(0).inject(make_ethernet(kLanMac, host_mac(0), 2));
    world.run();
    EXPECT_EQ(world.os(0).written.size(), 1u);
    EXPECT_EQ(world.os(1).written.size(), allowed ? 2u : 0u);
  }
}

TEST(Shared, the_nic_is_promiscuous_as_long_as_one_host_wants_it) {
  covers("DECISIONS-4");
  DriverWorldConfig config = hosts(2);
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  const auto set = [&world](size_t host, bool promiscuous) {
    NicFilters filters;
    filters.promiscuous = promiscuous;
    world.host(host).controller().set_filters(filters);
    world.run();
  };
  EXPECT_FALSE(world.nic().promiscuous);
  for (const size_t first : {size_t{0}, size_t{1}}) {
    set(first, true);
    set(1 - first, false);
    EXPECT_TRUE(world.nic().promiscuous) << first;
    set(first, false);
    EXPECT_FALSE(world.nic().promiscuous) << first;
  }
}

TEST(Shared, multicast_goes_where_the_filters_want_it) {
  covers("DECISIONS-2.20");
  DriverWorld world(hosts(2));
  world.run_until_open();
  NicFilters none;
  none.all_multicast = false;
  NicFilters one = none;
  one.multicast_count = 1;
  one.multicast[0] = kGroup;
  world.host(0).controller().set_filters(one);
  world.host(1).controller().set_filters(none);
  world.run();
  world.nic().inject(make_ethernet(kGroup, kLanMac, 1));
  world.nic().inject(make_ethernet({0x33, 0x33, 0, 0, 0, 1}, kLanMac, 2));
  world.nic().inject(make_ethernet(kMacBroadcast, kLanMac, 3));
  world.run();
  EXPECT_EQ(world.os(0).written.size(), 2u);
  EXPECT_EQ(world.os(1).written.size(), 1u);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kNoHostFor), 1u);
}

TEST(Shared, statistics_are_per_session) {
  covers("DECISIONS-4");
  DriverWorld world(hosts(2));
  world.run_until_open();
  for (uint32_t i = 0; i < 5; ++i) world.os(0).inject(make_ethernet(kLanMac, host_mac(0), i));
  world.os(1).inject(make_ethernet(kLanMac, host_mac(1), 9));
  world.run();
  for (size_t h = 0; h < 2; ++h) world.host(h).controller().read_statistics();
  world.run();
  EXPECT_EQ(world.host(0).controller().statistics().frames_out, 5u);
  EXPECT_EQ(world.host(1).controller().statistics().frames_out, 1u);
  world.host(0).controller().clear_statistics();
  world.run();
  for (size_t h = 0; h < 2; ++h) world.host(h).controller().read_statistics();
  world.run();
  EXPECT_EQ(world.host(0).controller().statistics().frames_out, 0u);
  EXPECT_EQ(world.host(1).controller().statistics().frames_out, 1u);
}

TEST(Hostile, a_frame_rewritten_after_the_check_does_not_change_what_was_checked) {
  covers("DECISIONS-2.16");
  // The private head holds vnet header, addresses and tags; the port gets it separately from the element.
  DriverWorld world;
  world.run_until_open();
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 1, 1000));
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 2, 1000));
  world.run();
  ASSERT_EQ(world.nic().head_bytes.size(), 1u);
  EXPECT_EQ(world.nic().head_bytes[0], kFrameHeadBytes);
  ASSERT_EQ(world.os().head_bytes.size(), 1u);
  EXPECT_EQ(world.os().head_bytes[0], kFrameHeadBytes);

  std::vector<std::byte> element(kVnetBytes);
  const std::vector<std::byte> frame = make_ethernet(kLanMac, host_mac(0), 3, 500);
  element.insert(element.end(), frame.begin(), frame.end());
  FrameHead head;
  ASSERT_TRUE(copy_head(element, head));
  // The peer writes the element again.
  std::fill(element.begin(), element.begin() + kFrameHeadBytes, std::byte{0xFF});
  MemoryFramePort port(host_mac(0), Offload::kNone);
  FrameWriter writer(port);
  EXPECT_EQ(writer.write(head, std::span<const std::byte>(element).subspan(head.size)), FrameIo::kOk);
  EXPECT_EQ(DriverWorld::taken(port), Frames{frame});
}

TEST(Hostile, vnet_headers_that_cannot_be_are_dropped_by_both_halves) {
  covers("DECISIONS-4");
  DriverWorld world;
  world.run_until_open();
  const auto poisoned = [](const MacAddress& to, const MacAddress& from, VnetHeader vnet) {
    std::vector<std::byte> bytes(kVnetBytes);
    store_vnet(bytes.data(), vnet);
    const std::vector<std::byte> frame = make_ethernet(to, from, 1, 100);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    return bytes;
  };
  const std::vector<VnetHeader> bad{
      {.flags = 0x80},
      {.flags = kVnetNeedsChecksum, .checksum_start = 99, .checksum_offset = 6},
      {.flags = kVnetNeedsChecksum, .checksum_start = 34, .checksum_offset = 0xFFFF},
      {.gso_type = 1, .gso_bytes = 1000},
      {.flags = kVnetNeedsChecksum,
       .gso_type = 1,
       .gso_bytes = 0,
       .checksum_start = 34,
       .checksum_offset = 16},
      {.flags = kVnetNeedsChecksum,
       .gso_type = 1,
       .gso_bytes = 9,
       .checksum_start = 34,
       .checksum_offset = 16},
      {.flags = kVnetNeedsChecksum,
       .gso_type = 77,
       .gso_bytes = 9,
       .checksum_start = 34,
       .checksum_offset = 16}};
  for (const VnetHeader& vnet : bad) world.os().inject_raw(poisoned(kLanMac, host_mac(0), vnet));
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 2));
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kLanMac, host_mac(0), 2)});
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kBadVnetHeader), bad.size());
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
}

TEST(Hostile, a_frame_longer_than_the_mtu_is_dropped_and_counted) {
  covers("DECISIONS-4");
  DriverWorld world;
  world.run_until_open();
  EXPECT_EQ(world.host().controller().last_status(host::NicRequest::kSetMtu), CfgStatus::kGood);
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 1, 1519));
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 2, 1518));
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kLanMac, host_mac(0), 2, 1518)});
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kTooLongForMtu), 1u);
}

TEST(BackPressure, nothing_is_lost_or_reordered_behind_a_slow_nic_or_os) {
  covers("DECISIONS-P5");
  DriverWorldConfig config;
  config.pools = {{2048, 4}};
  config.credits = 1;
  DriverWorld world(config);
  world.run_until_open();
  world.nic().writes_allowed = 0;
  world.os().writes_allowed = 0;
  Frames to_lan;
  Frames to_os;
  for (uint32_t i = 0; i < 100; ++i) {
    to_lan.push_back(make_ethernet(kLanMac, host_mac(0), i, 60 + 13 * i));
    to_os.push_back(make_ethernet(host_mac(0), kLanMac, 500 + i, 60 + 11 * i));
    world.os().inject(to_lan.back());
    world.nic().inject(to_os.back());
  }
  world.run(2000);
  EXPECT_TRUE(world.nic().written.empty());
  EXPECT_FALSE(world.os().to_read.empty());  // frames that do not fit stay with the OS
  for (int i = 0; i < 120; ++i) {
    world.nic().writes_allowed = 1;
    world.os().writes_allowed = 1;
    world.run(60);
  }
  EXPECT_EQ(DriverWorld::taken(world.nic()), to_lan);
  EXPECT_EQ(DriverWorld::taken(world.os()), to_os);
  EXPECT_GT(world.unit().counters().get(iou::UnitCounter::kNicBusyTurns), 0u);
  EXPECT_GT(world.host().counters().get(host::HostCounter::kNoElementTurns), 0u);
  EXPECT_GT(world.host().counters().get(host::HostCounter::kOsBusyTurns), 0u);
}

TEST(BackPressure, a_stopped_host_does_not_stop_its_neighbour) {
  covers("DECISIONS-4");
  DriverWorldConfig config = hosts(2);
  config.pools = {{2048, 4}};
  DriverWorld world(config);
  world.run_until_open();
  world.os(0).writes_allowed = 0;  // the OS takes no more frames
  for (uint32_t i = 0; i < 40; ++i) {
    world.nic().inject(make_ethernet(host_mac(0), kLanMac, i));
    world.nic().inject(make_ethernet(host_mac(1), kLanMac, 100 + i));
  }
  world.run_for(3s, 100us);
  EXPECT_EQ(world.os(1).written.size(), 40u);
  EXPECT_GT(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0u);
}

TEST(Session, carrier_goes_five_seconds_after_the_session_and_comes_back_with_it) {
  covers("DECISIONS-2.13");
  DriverWorld world;
  EXPECT_FALSE(world.os().carrier_set);
  world.run_until_open();
  EXPECT_TRUE(world.os().carrier_set);
  const uint64_t before = world.host().counters().get(host::HostCounter::kCarrierDown);
  world.nodes[world.units[0].node].paused = true;  // stops the unit
  world.run_for(2s);
  EXPECT_NE(world.session().state(), session::SessionState::kOpen);
  EXPECT_TRUE(world.os().carrier_set);
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 1));
  world.run_for(1s);
  EXPECT_EQ(world.os().to_read.size(), 1u);  // without a session nothing is read
  world.run_for(4s);
  EXPECT_FALSE(world.os().carrier_set);
  EXPECT_EQ(world.host().counters().get(host::HostCounter::kCarrierDown), before + 1);
  world.nodes[world.units[0].node].paused = false;
  world.run_for(3s);
  world.run_until_open();
  EXPECT_TRUE(world.os().carrier_set);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kLanMac, host_mac(0), 1)});
}

TEST(Session, settings_are_replayed_when_the_session_returns) {
  covers("DECISIONS-2.21");
  DriverWorldConfig config;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  NicFilters filters;
  filters.promiscuous = true;
  world.host().controller().set_filters(filters);
  world.host().controller().set_mtu(1300);
  world.run();
  world.nodes[world.units[0].node].paused = true;
  world.run_for(3s);
  ASSERT_NE(world.session().state(), session::SessionState::kOpen);
  world.nodes[world.units[0].node].paused = false;
  world.run_for(3s);
  world.run_until_open();
  EXPECT_EQ(world.host().controller().counters().get(host::ControllerCounter::kReplays), 2u);
  bool found = false;
  for (const iou::UnitClient& client : world.unit().clients()) {
    if (!client.active) continue;
    found = true;
    EXPECT_TRUE(client.filters.promiscuous);
    EXPECT_EQ(client.mtu_bytes, 1300u);
    EXPECT_EQ(client.mac, host_mac(0));
  }
  EXPECT_TRUE(found);
}

TEST(Session, link_state_of_the_lan_reaches_the_host) {
  covers("DECISIONS-2.20");
  DriverWorld world;
  world.run_until_open();
  EXPECT_TRUE(world.os().carrier_set);
  world.nic().carrier_up = false;
  world.run();
  EXPECT_FALSE(world.os().carrier_set);
  world.nic().carrier_up = true;
  world.run();
  EXPECT_TRUE(world.os().carrier_set);
  EXPECT_GE(world.unit().counters().get(iou::UnitCounter::kLinkEvents), 3u);
}

/// A TCP segment of `payload` bytes over IPv4 with an open checksum, as a stack gives it to a NIC with TSO.
std::vector<std::byte> tso_frame(const MacAddress& to, const MacAddress& from, uint32_t payload,
                                 uint16_t mss) {
  std::vector<std::byte> bytes(kVnetBytes + 54 + payload);
  const std::vector<std::byte> ethernet = make_ethernet(to, from, 5, 54 + payload, kEtherTypeIpv4);
  std::memcpy(bytes.data() + kVnetBytes, ethernet.data(), ethernet.size());
  std::byte* ip = bytes.data() + kVnetBytes + kEthernetHeaderBytes;
  std::memset(ip, 0, 40);
  ip[0] = std::byte{0x45};
  store_be(ip + 2, static_cast<uint16_t>(40 + payload));
  ip[8] = std::byte{64};
  ip[9] = std::byte{kIpProtocolTcp};
  store_be(ip + 12, uint32_t{0x0A000001});
  store_be(ip + 16, uint32_t{0x0A000002});
  set_ipv4_checksum(ip, 20);
  std::byte* tcp = ip + 20;
  store_be(tcp + 4, uint32_t{1000});
  tcp[12] = std::byte{0x50};
  tcp[13] = std::byte{0x18};
  store_be(tcp + 16,
           static_cast<uint16_t>(~checksum_fold(pseudo_header_sum(ip, 4, kIpProtocolTcp, 20 + payload))));
  store_vnet(bytes.data(), {.flags = kVnetNeedsChecksum,
                            .gso_type = static_cast<uint8_t>(VnetGso::kTcp4),
                            .header_bytes = 54,
                            .gso_bytes = mss,
                            .checksum_start = 34,
                            .checksum_offset = 16});
  return bytes;
}

constexpr Offload kTcp4 = Offload::kChecksum | Offload::kTso4;

TEST(Offloads, features_are_those_of_both_sides_and_large_frames_cross_whole) {
  covers("DECISIONS-2.21");
  DriverWorldConfig config;
  config.host_offloads = kTcp4 | Offload::kTso6;
  config.nic_offloads = kTcp4 | Offload::kUso4;
  DriverWorld world(config);
  world.run_until_open();
  EXPECT_EQ(world.os().offloads_set, kTcp4);
  EXPECT_EQ(world.nic().offloads_set, kTcp4);
  const std::vector<std::byte> big = tso_frame(kLanMac, host_mac(0), 60'000, 1448);
  world.os().inject_raw(big);
  world.run(2000);
  ASSERT_EQ(world.nic().written.size(), 1u);
  EXPECT_EQ(world.nic().written[0], big);
}

TEST(Offloads, frames_already_read_are_cut_in_software_when_the_nic_cannot) {
  covers("DECISIONS-2.21 DECISIONS-2.18");
  DriverWorldConfig config;
  config.host_offloads = kTcp4;
  DriverWorld world(config);  // the NIC has no offloads
  world.run_until_open();
  EXPECT_EQ(world.os().offloads_set, Offload::kNone);
  world.os().inject_raw(tso_frame(kLanMac, host_mac(0), 10'000, 1448));
  world.run(2000);
  const Frames pieces = DriverWorld::taken(world.nic());
  ASSERT_EQ(pieces.size(), 7u);
  uint32_t sequence = 1000;
  for (const auto& piece : pieces) {
    const std::byte* ip = piece.data() + kEthernetHeaderBytes;
    EXPECT_TRUE(transport_checksum_ok(ip, 4, kIpProtocolTcp, std::span(piece).subspan(34)));
    EXPECT_EQ(load_be<uint16_t>(ip + 2), piece.size() - kEthernetHeaderBytes);
    EXPECT_EQ(load_be<uint32_t>(ip + 24), sequence);
    sequence += static_cast<uint32_t>(piece.size()) - 54;
  }
  EXPECT_EQ(sequence, 11'000u);
}

TEST(Offloads, lan_frames_are_cut_for_a_host_that_cannot_take_them_whole) {
  covers("DECISIONS-2.21");
  DriverWorldConfig config;
  config.nic_offloads = kTcp4;
  DriverWorld world(config);  // the host has no offloads
  world.run_until_open();
  world.nic().inject_raw(tso_frame(host_mac(0), kLanMac, 10'000, 1448));
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 1));
  world.run(3000);
  const Frames got = DriverWorld::taken(world.os());
  ASSERT_EQ(got.size(), 8u);
  EXPECT_EQ(got.back(), make_ethernet(host_mac(0), kLanMac, 1));
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSegmentedForHost), 1u);
}

TEST(Offloads, a_frame_that_is_cut_waits_for_the_only_host_as_any_other_does) {
  covers("DECISIONS-2.21");
  DriverWorldConfig config;
  config.nic_offloads = kTcp4;
  config.pools = {{2048, 4}};
  DriverWorld world(config);
  world.run_until_open();
  world.os().busy = true;
  world.nic().inject_raw(tso_frame(host_mac(0), kLanMac, 20'000, 1448));
  world.run_for(2 * iou::kSlowHostMax);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSegmentedForHost), 1u);
  world.os().busy = false;
  world.run(3000);
  EXPECT_EQ(DriverWorld::taken(world.os()).size(), 14u);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0u);
}

TEST(Frames, any_ethertype_and_vlan_tags_pass) {
  covers("DECISIONS-2.18");
  DriverWorld world;
  world.run_until_open();
  Frames wanted;
  constexpr std::array<uint16_t, 8> kTypes{0x0800, 0x0806, 0x86DD, 0x8100, 0x88A8, 0x88CC, 0x0001, 0xFFFF};
  for (const uint16_t type : kTypes) {
    wanted.push_back(make_ethernet(kLanMac, host_mac(0), type, 100, type));
    world.os().inject(wanted.back());
  }
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), wanted);
}

}  // namespace
}  // namespace weft::test
