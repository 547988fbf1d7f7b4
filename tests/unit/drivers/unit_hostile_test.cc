// The unit half against hosts that take what belongs to others: an address, the LAN's time, a place.
#include <gtest/gtest.h>

#include "iou_driver/iou_netdev.h"
#include "tests/support/driver_world.h"
#include "tests/support/scripted_host.h"

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

/// The first frame of `from` waits for host 1, which then leaves the group. Later host 2 has no room.
TEST(UnitWait, for_one_host_is_not_held_against_another) {
  DriverWorldConfig config;
  config.hosts = 3;
  config.pools = {{2048, 4}, {65536, 4}};
  DriverWorld world(config);
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

}  // namespace
}  // namespace weft::test
