// An address that a host has set at its unit: from then on the unit knows the host by it, as by the one with
// which the session opened.
#include <gtest/gtest.h>

#include <algorithm>

#include "iou_driver/iou_netdev.h"
#include "tests/support/driver_world.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;
using session::SessionState;

constexpr MacAddress kNewMac{0x02, 0, 0, 0, 0x77, 1};

/// `ip link set ... address` at an interface of a host, and the unit has granted it.
void set_mac(DriverWorld& world, const MacAddress& mac, size_t host, size_t interface = 0) {
  ASSERT_TRUE(world.os(host, interface).set_mac(mac).ok());
  world.run();
  ASSERT_EQ(world.host(host, interface).controller().counters().get(host::ControllerCounter::kRefused), 0U);
}

/// An interface starts, or starts again after a death that its unit has not noticed, with the address that it
/// has now.
void start(DriverWorld& world, DriverWorld::HostInterface& interface, size_t host) {
  const MacAddress mac = interface.os->info().mac;
  interface.half.reset();
  const session::SessionConfig session{.pools = world.config.pools, .mac = mac, .unit = Lid(1)};
  interface.session =
      session::NetdevSession::make(session, *world.nodes[world.hosts[host].node].session_ports, world.random);
  host::NicSettings settings;
  settings.mac = mac;
  interface.half = std::make_unique<host::HostNetdev>(*interface.session, *interface.os, settings);
  interface.half->open();
}

uint32_t active_clients(DriverWorld& world) {
  const auto clients = world.unit().clients();
  return static_cast<uint32_t>(
      std::count_if(clients.begin(), clients.end(), [](const auto& one) { return one.active; }));
}

uint64_t replaced(DriverWorld& world) {
  uint64_t sum = 0;
  for (session::NetdevSession* session : world.units[0].acceptor->sessions())
    sum += session->counters().get(session::SessionCounter::kLostReplaced);
  return sum;
}

/// Host 0 leaves its address, host 1 takes it and is started anew.
TEST(SetMac, an_address_that_its_host_has_left_admits_the_one_that_took_it) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  set_mac(world, kNewMac, 0);
  set_mac(world, host_mac(0), 1);
  start(world, world.hosts[1].interfaces[0], 1);
  world.run_for(500ms);
  EXPECT_EQ(world.session(1).state(), SessionState::kOpen);
  EXPECT_EQ(world.units[0].acceptor->counters().get(session::AcceptorCounter::kRefusedMacTaken), 0U);
  EXPECT_EQ(world.session(0).state(), SessionState::kOpen);
  EXPECT_EQ(world.session(0).incarnation(), 1U);
}

/// A host that is back under the address that it has set replaces its own session.
TEST(SetMac, a_host_that_is_back_under_it_takes_its_own_place) {
  DriverWorld world;
  world.run_until_open();
  set_mac(world, kNewMac, 0);
  start(world, world.hosts[0].interfaces[0], 0);
  world.run_for(50ms);
  ASSERT_EQ(world.session().state(), SessionState::kOpen);
  EXPECT_EQ(replaced(world), 1U);
  EXPECT_EQ(active_clients(world), 1U);
  EXPECT_EQ(world.host().controller().counters().get(host::ControllerCounter::kRefused), 0U);
  const auto frame = make_ethernet(kNewMac, kLanMac, 1);
  world.nic().inject(frame);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.os()), Frames{frame});
}

/// A TAP that is made again has its configured address again.
TEST(SetMac, a_host_that_is_back_without_it_takes_its_own_place) {
  DriverWorld world;
  world.run_until_open();
  set_mac(world, kNewMac, 0);
  ASSERT_TRUE(world.os().set_mac(host_mac(0)).ok());
  start(world, world.hosts[0].interfaces[0], 0);
  world.run_for(50ms);
  EXPECT_EQ(world.session().state(), SessionState::kOpen);
  EXPECT_EQ(replaced(world), 1U);
  EXPECT_EQ(active_clients(world), 1U);
}

/// Two interfaces of one host have the same LID: the one that takes the other's former address and connects
/// again ends its own session.
TEST(SetMac, an_interface_that_left_its_address_keeps_its_session_when_another_one_comes_with_it) {
  DriverWorld world;
  DriverWorld::HostInterface second;
  second.os = std::make_unique<MemoryFramePort>(host_mac(9), Offload::kNone, 1500, 65524);
  world.hosts[0].interfaces.push_back(std::move(second));
  start(world, world.hosts[0].interfaces[1], 0);
  world.run_until_open();
  set_mac(world, kNewMac, 0, 0);
  set_mac(world, host_mac(0), 0, 1);
  start(world, world.hosts[0].interfaces[1], 0);
  world.run_for(500ms);
  EXPECT_EQ(world.session(0, 1).state(), SessionState::kOpen);
  EXPECT_EQ(world.session(0, 0).state(), SessionState::kOpen);
  EXPECT_EQ(world.session(0, 0).incarnation(), 1U) << "never lost";
  EXPECT_EQ(active_clients(world), 2U);
}

}  // namespace
}  // namespace weft::test
