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

}  // namespace
}  // namespace weft::test
