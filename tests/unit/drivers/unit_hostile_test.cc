// The unit half against hosts that take what belongs to others: an address, the LAN's time, a place.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "iou_driver/echo_nic.h"
#include "iou_driver/iou_netdev.h"
#include "tests/support/driver_world.h"
#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"
#include "tests/support/unfinished_frame.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;

/// The host's session object at the unit, in the order of opening.
session::NetdevSession& at_unit(DriverWorld& world, size_t index) {
  return *world.units[0].acceptor->sessions()[index];
}

session::CfgRequest set_mac_request(const MacAddress& mac) {
  return {.request_class = CfgClass::kMacConfig,
          .code = static_cast<uint16_t>(MacConfigCode::kSetMac),
          .data = std::as_bytes(std::span(mac))};
}

/// Three hosts, whose pools have `small` elements for frames of the LAN and few for those with GSO.
DriverWorldConfig three_hosts(uint32_t small) {
  DriverWorldConfig config;
  config.hosts = 3;
  config.pools = {{2048, small}, {65536, 4}};
  return config;
}

/// The victim's session is being opened: the unit has answered its REQ, and has not seen its pools yet.
TEST(UnitAddress, of_a_host_that_is_being_admitted_is_not_given_to_another) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  DriverWorld::Node& victim = world.nodes[world.hosts[1].node];
  victim.paused = true;
  world.run_for(500ms);
  ASSERT_EQ(world.session(0).state(), session::SessionState::kOpen);
  victim.paused = false;
  for (int i = 0; world.unit().clients().size() < 2 && i < 100'000; ++i) world.turn();
  victim.paused = true;
  ASSERT_EQ(at_unit(world, 1).state(), session::SessionState::kOpening);
  const MacAddress wanted = host_mac(1);
  ASSERT_NE(world.session(0).request_config(set_mac_request(wanted)), 0U);
  world.run();
  EXPECT_EQ(world.unit().clients()[0].mac, host_mac(0));
  EXPECT_EQ(world.unit().config().counters().get(iou::ConfigCounter::kMacTaken), 1U);
  victim.paused = false;
  world.run_until_open();
  const auto frame = make_ethernet(host_mac(1), kLanMac, 1);
  world.nic().inject(frame);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.os(1)), Frames{frame});
  EXPECT_TRUE(DriverWorld::taken(world.os(0)).empty());
}

/// A host may set its address before it has offered a pool, and then never offer one.
TEST(UnitAddress, that_a_host_has_taken_before_its_session_is_open_is_its_own) {
  ScriptedHost host(unit_config());
  MemoryFramePort nic(kLanMac);
  iou::IouNetdev half(*host.acceptor, nic, {});
  ASSERT_TRUE(host.connect());
  const MacAddress wanted = host_mac(1);
  const session::CfgRequest request = set_mac_request(wanted);
  host.say(
      {.context = 1,
       .body = CfgUtilRequest{static_cast<uint16_t>(request.request_class), request.code, request.data}});
  ASSERT_EQ(host.unit().state(), session::SessionState::kOpening);
  ASSERT_EQ(half.clients()[0].mac, wanted);
  const session::SessionPeer other{.lid = Lid(9), .mac = wanted};
  EXPECT_EQ(half.admit(other), session::SessionRefusal::kMacTaken);
  host.knock(CmAttribute::kDreq, host.nonce);
  ASSERT_EQ(host.unit().state(), session::SessionState::kLost);
  EXPECT_EQ(half.admit(other), session::SessionRefusal::kNone);
}

/// The network stack behind a kernel's interface has that interface's address. A model gives its own away.
TEST(UnitAddress, of_a_nic_with_a_network_stack_is_for_no_host) {
  for (const bool model : {false, true}) {
    DriverWorldConfig config;
    config.hosts = 2;
    config.policy.program_nic_mac = model;
    const MacAddress stack{0x02, 0, 0, 0, 0xEE, 0};
    config.macs = {host_mac(0), stack};
    DriverWorld world(config);
    ASSERT_EQ(world.nic().info().mac, stack);
    world.run_for(500ms);
    ASSERT_EQ(world.session(0).state(), session::SessionState::kOpen);
    EXPECT_EQ(world.session(1).state() == session::SessionState::kOpen, model);
    EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kHostsRefusedMac) == 0, model);
    world.session(1).close();
    world.run_for(100ms);
    ASSERT_NE(world.session(0).request_config(set_mac_request(stack)), 0U);
    world.run();
    EXPECT_EQ(world.unit().clients()[0].mac, model ? stack : host_mac(0));
    EXPECT_EQ(world.unit().config().counters().get(iou::ConfigCounter::kMacTaken), model ? 0U : 1U);
  }
}

/// The first frame of `from` waits for host 1, which then leaves the group. Later host 2 has no room.
TEST(UnitWait, for_one_host_is_not_held_against_another) {
  DriverWorld world(three_hosts(4));
  world.run_until_open();
  const MacAddress group{0x01, 0, 0x5E, 0, 0, 9};
  NicFilters none;
  none.all_multicast = false;
  world.host(2).controller().set_filters(none);
  world.run();
  world.os(1).busy = true;
  for (uint32_t i = 0; i < 60; ++i) world.os(0).inject(make_ethernet(group, host_mac(0), i));
  world.run(400);
  const uint64_t waited = world.unit().counters().get(iou::UnitCounter::kHostBusyTurns);
  ASSERT_GT(waited, 0U);
  world.host(1).controller().set_filters(none);
  world.run_for(2 * iou::kSlowHostMax);
  ASSERT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0U);
  world.os(2).busy = true;
  Frames sent;
  for (uint32_t i = 0; i < 40; ++i) {  // more than host 2 has room for, from another host
    sent.push_back(make_ethernet(host_mac(2), host_mac(1), i));
    world.os(1).inject(sent.back());
  }
  world.run(200);
  ASSERT_GT(world.unit().counters().get(iou::UnitCounter::kHostBusyTurns), waited);
  world.os(0).inject(make_ethernet(host_mac(2), host_mac(0), 1));
  world.run_for(iou::kSlowHostMax / 2);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0U);
  world.os(2).busy = false;
  world.run_for(100ms);
  EXPECT_EQ(DriverWorld::taken(world.os(2)).size(), sent.size() + 1);
}

/// The LAN gets a frame for each of hosts 1 and 2 every millisecond. Returns what host 2 got in a second.
size_t got_by_the_other(DriverWorld& world, const std::function<void(int)>& each_step, Duration step) {
  DriverWorld::taken(world.os(2));
  Instant due = world.clock.now();
  const Instant end = due + 1s;
  for (int i = 0; world.clock.now() < end; ++i) {
    if (world.clock.now() >= due) {
      due += 1ms;
      for (const uint32_t host : {1U, 2U}) world.nic().inject(make_ethernet(host_mac(host), kLanMac, 1));
    }
    each_step(i);
    world.turn(step);
  }
  return world.os(2).written.size();
}

/// A host that takes a frame just before it counts as slow, again and again.
TEST(UnitWait, for_a_host_that_takes_a_frame_now_and_then_is_a_small_part_of_the_time) {
  DriverWorld world(three_hosts(4));
  world.run_until_open();
  world.os(1).writes_allowed = 0;
  const auto take_some = [&](int i) {
    if (i % 48 == 47) world.os(1).writes_allowed = 1;  // every 24 ms
  };
  EXPECT_GE(got_by_the_other(world, take_some, 500us), 900U);
  EXPECT_GT(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0U);
  world.os(1).writes_allowed = UINT64_MAX;
  world.run_for(2s);
  EXPECT_GE(got_by_the_other(
                world, [](int) {}, 500us),
            990U);
  world.os(1).written.clear();
  world.os(1).busy = true;
  const uint64_t drops = world.unit().counters().get(iou::UnitCounter::kSlowHostDrops);
  for (uint32_t i = 0; i < 40; ++i) world.nic().inject(make_ethernet(host_mac(1), kLanMac, i));
  world.run_for(iou::kSlowHostMax - 3ms);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), drops) << "all of it is back";
}

/// The time that the unit waits belongs to the endnode: another one has its own, a new session no fresh one.
TEST(UnitWait, for_a_host_that_opens_its_session_again_goes_on) {
  DriverWorld world(three_hosts(4));
  world.run_until_open();
  uint64_t drops = 0;
  const auto drops_within = [&](size_t host, Duration time) {
    world.os(host).busy = true;
    for (uint32_t i = 0; i < 40; ++i)
      world.nic().inject(make_ethernet(host_mac(static_cast<uint32_t>(host)), kLanMac, i));
    world.run_for(time, 100us);
    return world.unit().counters().get(iou::UnitCounter::kSlowHostDrops) -
           std::exchange(drops, world.unit().counters().get(iou::UnitCounter::kSlowHostDrops));
  };
  EXPECT_EQ(drops_within(1, iou::kSlowHostMax - 2ms), 0U);
  EXPECT_GT(drops_within(1, 4ms), 0U);
  EXPECT_EQ(drops_within(2, iou::kSlowHostMax / 2), 0U);
  world.os(2).busy = false;
  host_comes_back(world, 1);
  world.run_for(20ms, 100us);
  ASSERT_EQ(world.session(1).state(), session::SessionState::kOpen);
  EXPECT_GT(drops_within(1, iou::kSlowHostMax / 2), 0U);
}

/// Frames that the unit cuts go through memory that the LAN's frames need as well.
TEST(UnitWait, for_frames_between_hosts_leaves_the_lan_its_turns) {
  DriverWorld world(three_hosts(64));
  world.run_until_open();
  world.os(1).writes_allowed = 0;
  const auto keep_busy = [&](int) {
    world.os(1).writes_allowed = 1;  // in 20 us: more than the 64 MB/s that are always waited for
    while (world.os(0).to_read.size() < 64)
      world.os(0).inject_raw(unfinished(host_mac(1), host_mac(0), false));
  };
  EXPECT_GE(got_by_the_other(world, keep_busy, 20us), 900U);
  EXPECT_GT(world.os(1).written.size(), 20'000U);
}

/// Such a frame waits in memory that the LAN uses too; the LAN has nothing for it.
TEST(UnitWait, for_frames_between_hosts_needs_no_frames_of_the_lan) {
  constexpr uint32_t kFrames = 40;
  DriverWorld world(three_hosts(4));
  world.run_until_open();
  world.os(1).writes_allowed = 0;
  for (uint32_t i = 0; i < kFrames; ++i) world.os(0).inject_raw(unfinished(host_mac(1), host_mac(0), false));
  world.run();
  EXPECT_FALSE(world.os(0).to_read.empty()) << "the others wait behind it";
  world.os(1).writes_allowed = UINT64_MAX;
  world.run_for(20ms, 10us);
  EXPECT_EQ(world.os(1).written.size(), kFrames);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0U);
}

/// A frame that the LAN object of EchoNic answers.
std::vector<std::byte> arp_request(const MacAddress& from, const iou::EchoNicConfig& lan) {
  std::vector<std::byte> bytes(kVnetBytes);
  const auto frame = make_ethernet(kMacBroadcast, from, 1, 60, kEtherTypeArp);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  std::byte* arp = bytes.data() + kVnetBytes + kEthernetHeaderBytes;
  store_be(arp, uint16_t{1});
  store_be(arp + 2, kEtherTypeIpv4);
  store_be(arp + 6, uint16_t{1});
  std::memcpy(arp + 24, lan.ipv4.data(), 4);
  return bytes;
}

/// The LAN's model takes no frame while its answers are not read; the host that they are for has gone.
TEST(UnitPlaces, are_free_again_when_a_host_dies_with_frames_that_a_busy_lan_did_not_take) {
  SessionPairOptions options;
  options.unit.hosts_max = 1;
  options.host.mac = host_mac(0);
  options.pools({{2048, 8}});
  options.open = false;
  SessionPair pair(options);
  const iou::EchoNicConfig lan{.answers = 4};
  iou::EchoNic nic(lan);
  iou::IouNetdev half(pair.acceptor(), nic, {});
  const auto run = [&](int turns, Duration step = 10us) {
    for (int i = 0; i < turns; ++i) {
      pair.turn(step);
      half.poll(pair.clock.now());
    }
  };
  const auto request = arp_request(host_mac(0), lan);
  pair.restart_host();
  run(1000);
  ASSERT_EQ(half.clients().size(), 1U);
  ASSERT_TRUE(half.clients()[0].active);
  for (int i = 0; i < 100; ++i) {  // the host takes none of the answers
    const std::span<std::byte> into = pair.host().claim_frame(2000);
    if (into.size() < request.size()) break;
    std::copy(request.begin(), request.end(), into.begin());
    pair.host().submit_frame(static_cast<uint32_t>(request.size()));
    run(20);
  }
  ASSERT_GT(half.counters().get(iou::UnitCounter::kNicBusyTurns), 0U);
  pair.options.host.mac = host_mac(1);
  pair.restart_host();
  run(3000, 1ms);
  EXPECT_EQ(pair.host().state(), session::SessionState::kOpen) << to_string(pair.host().refusal());
  EXPECT_GT(half.counters().get(iou::UnitCounter::kNoHostFor), 0U);
  EXPECT_EQ(half.clients()[0].mac, host_mac(1));
}

/// A recording that is played begins with the first host.
TEST(UnitPlaces, that_nobody_has_taken_yet_leave_the_lan_unread) {
  DriverWorldConfig config;
  config.hosts = 0;
  DriverWorld world(config);
  world.nic().inject(make_ethernet(kMacBroadcast, kLanMac, 1));
  world.run();
  EXPECT_EQ(world.nic().to_read.size(), 1U);
}

}  // namespace
}  // namespace weft::test
