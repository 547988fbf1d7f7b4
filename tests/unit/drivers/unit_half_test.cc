// The unit half: frames that come before their session is open, or stay behind when it ends; hosts that are
// slow, gone or back; what they set on the NIC.
#include <gtest/gtest.h>

#include <algorithm>

#include "iou_driver/iou_netdev.h"
#include "tests/support/driver_world.h"
#include "tests/support/session_pair.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;

/// Channel 1 is faster than channel 0: the first frame of another host, in the session object of an earlier
/// one, is there before the session is open, and is judged by the address of its own host.
TEST(UnitHalf, a_frame_before_the_session_is_open_belongs_to_its_own_host) {
  SessionPairOptions options;
  options.host.mac = host_mac(0);
  SessionPair pair(options);
  MemoryFramePort nic(kLanMac);
  iou::IouNetdev half(pair.acceptor(), nic, {});
  const auto run = [&](int turns) {
    for (int i = 0; i < turns; ++i) {
      pair.turn();
      half.poll(pair.clock.now());
    }
  };
  pair.host().close();
  run(1000);
  pair.options.host.mac = host_mac(1);
  pair.restart_host();
  pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
    CellView view;
    const bool message = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone &&
                         view.opcode == Opcode::kSend;
    return from == 0 && message ? Verdict::kHold : Verdict::kPass;
  });
  run(50);
  ASSERT_EQ(pair.host().state(), session::SessionState::kOpen);
  ASSERT_EQ(pair.unit().state(), session::SessionState::kOpening);
  std::vector<std::byte> frame(kVnetBytes);
  const auto ethernet = make_ethernet(kLanMac, host_mac(1), 1);
  frame.insert(frame.end(), ethernet.begin(), ethernet.end());
  const std::span<std::byte> into = pair.host().claim_frame(2000);
  ASSERT_GE(into.size(), frame.size());
  std::copy(frame.begin(), frame.end(), into.begin());
  pair.host().submit_frame(static_cast<uint32_t>(frame.size()));
  run(50);
  EXPECT_EQ(half.counters().get(iou::UnitCounter::kForeignSource), 0U);
  EXPECT_EQ(DriverWorld::taken(nic), Frames{ethernet});
}

/// `ip link set ... address` at the host: the unit takes frames from there, now and after the next opening.
TEST(UnitHalf, a_change_of_address_is_followed) {
  DriverWorld world;
  world.run_until_open();
  const MacAddress other{0x02, 0, 0, 0, 0x77, 1};
  ASSERT_TRUE(world.os().set_mac(other).ok());
  world.run();
  EXPECT_EQ(world.unit().clients()[0].mac, other);
  world.os().inject(make_ethernet(kLanMac, other, 1));
  world.nic().inject(make_ethernet(other, kLanMac, 2));
  world.run();
  EXPECT_EQ(world.nic().written.size(), 1U);
  EXPECT_EQ(world.os().written.size(), 1U);
  world.nodes[world.units[0].node].paused = true;
  world.run_for(3s);
  ASSERT_NE(world.session().state(), session::SessionState::kOpen);
  world.nodes[world.units[0].node].paused = false;
  world.run_for(3s);
  world.run_until_open();
  for (const iou::UnitClient& client : world.unit().clients()) {
    if (client.active) {
      EXPECT_EQ(client.session->peer().mac, other);
    }
  }
}

/// A unit that starts anew knows nothing of what the host has set: it is told of all of it, once.
TEST(UnitHalf, each_opening_of_a_session_sets_everything_again_and_nothing_else) {
  DriverWorldConfig config;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  host::NicController& controller = world.host().controller();
  const uint64_t first = controller.counters().get(host::ControllerCounter::kRequests);
  const MacAddress other{0x02, 0, 0, 0, 0x77, 1};
  NicFilters filters;
  filters.promiscuous = true;
  controller.set_mac(other);
  controller.set_mtu(1400);
  controller.set_filters(filters);
  world.run();
  const uint64_t before = controller.counters().get(host::ControllerCounter::kRequests);
  EXPECT_EQ(before, first + 3);
  world.nodes[world.units[0].node].paused = true;
  world.run_for(3s);
  ASSERT_NE(world.session().state(), session::SessionState::kOpen);
  controller.read_statistics();  // of the session that has gone
  world.nodes[world.units[0].node].paused = false;
  world.run_for(3s);
  world.run_until_open();
  EXPECT_EQ(controller.counters().get(host::ControllerCounter::kRequests), before + first);
  const auto clients = world.unit().clients();
  const auto client =
      std::find_if(clients.begin(), clients.end(), [](const auto& one) { return one.active; });
  ASSERT_NE(client, clients.end());
  EXPECT_EQ(client->mac, other);
  EXPECT_EQ(client->mtu_bytes, 1400U);
  EXPECT_TRUE(client->filters.promiscuous);
}

/// A fail-over moves an address: the host that takes it may ask before the other one has given it up.
TEST(UnitHalf, an_address_that_was_taken_is_asked_for_until_it_is_free) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  const MacAddress shared = host_mac(0);
  const MacAddress spare{0x02, 0, 0, 0, 0x77, 1};
  ASSERT_TRUE(world.os(1).set_mac(shared).ok());
  world.run_for(3s);
  host::NicController& second = world.host(1).controller();
  EXPECT_EQ(world.unit().clients()[1].mac, host_mac(1));
  EXPECT_EQ(second.last_status(host::NicRequest::kSetMac), CfgStatus::kNotPermitted);
  const uint64_t refused = second.counters().get(host::ControllerCounter::kRefused);
  EXPECT_GE(refused, 3U);
  EXPECT_LE(refused, 8U) << "not at each turn";
  ASSERT_TRUE(world.os(0).set_mac(spare).ok());
  world.run_for(1s);
  EXPECT_EQ(world.unit().clients()[0].mac, spare);
  EXPECT_EQ(world.unit().clients()[1].mac, shared);
  EXPECT_EQ(second.deadline(), kNever);
  world.nic().inject(make_ethernet(shared, kLanMac, 2));
  world.run();
  EXPECT_EQ(world.os(1).written.size(), 1U);
}

/// `ip link set ... promisc on` at the host, beside what was asked of the NIC itself.
TEST(UnitHalf, filters_of_the_interface_are_followed_as_far_as_the_unit_allows) {
  for (const bool allowed : {false, true}) {
    DriverWorldConfig config;
    config.policy.promiscuous_allowed = allowed;
    DriverWorld world(config);
    world.run_until_open();
    host::NicController& controller = world.host().controller();
    NicFilters groups;
    groups.all_multicast = false;
    groups.multicast_count = 1;
    groups.multicast[0] = {0x01, 0, 0x5E, 0, 0, 9};
    controller.set_filters(groups);
    world.os().switch_filters(true, false);
    world.run();
    NicFilters expected = groups;
    expected.promiscuous = allowed;
    EXPECT_EQ(world.unit().clients()[0].filters, expected);
    EXPECT_EQ(controller.filters(), expected);
    EXPECT_EQ(controller.promiscuous_refused(), !allowed);
    EXPECT_EQ(world.nic().promiscuous, allowed);
    world.os().switch_filters(false, true);
    world.run();
    expected = groups;
    expected.all_multicast = true;
    EXPECT_EQ(world.unit().clients()[0].filters, expected);
    EXPECT_FALSE(controller.promiscuous_refused());
    world.os().switch_filters(false, false);
    world.run();
    EXPECT_EQ(world.unit().clients()[0].filters, groups);
    EXPECT_EQ(controller.settings().filters, groups);
  }
}

TEST(UnitHalf, the_nic_is_promiscuous_as_long_as_one_of_its_hosts_wants_it) {
  DriverWorldConfig config;
  config.hosts = 2;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  const auto set = [&](size_t host, bool on) {
    NicFilters filters;
    filters.promiscuous = on;
    world.host(host).controller().set_filters(filters);
    world.run();
  };
  set(0, true);
  set(1, true);
  set(0, false);
  EXPECT_TRUE(world.nic().promiscuous) << "the other one still does";
  set(1, false);
  EXPECT_FALSE(world.nic().promiscuous);
  set(1, true);
  world.nodes[world.hosts[1].node].paused = true;
  world.run_for(3s);
  world.host(0).controller().set_filters({});
  world.run();
  EXPECT_FALSE(world.nic().promiscuous) << "a host that has gone wants nothing";
}

/// What the NIC refuses is not in force.
TEST(UnitHalf, filters_that_the_nic_refuses_change_nothing) {
  DriverWorldConfig config;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  world.nic().refuse_settings = true;
  world.os().switch_filters(true, false);
  world.run();
  EXPECT_EQ(world.host().controller().last_status(host::NicRequest::kSetFilters), CfgStatus::kFailed);
  EXPECT_FALSE(world.host().controller().filters().promiscuous);
  EXPECT_FALSE(world.unit().clients()[0].filters.promiscuous);
}

/// A session begins with the filters of a new NIC.
TEST(UnitHalf, filters_that_a_session_did_not_get_are_not_those_of_the_session_before) {
  DriverWorldConfig config;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  world.os().switch_filters(true, false);
  world.run();
  ASSERT_TRUE(world.host().controller().filters().promiscuous);
  world.session().close();
  world.run_for(100ms);
  world.nic().refuse_settings = true;
  world.host().open();
  world.run_until_open();
  world.run_for(100ms);
  ASSERT_EQ(world.host().controller().last_status(host::NicRequest::kSetFilters), CfgStatus::kFailed);
  EXPECT_EQ(world.host().controller().filters(), world.unit().clients()[0].filters);
}

/// `ip link set ... mtu` at the host, later at the unit: each takes effect at once, the host knows the limit.
TEST(UnitHalf, a_change_of_mtu_is_followed_as_far_as_the_nic_goes) {
  DriverWorld world;
  ASSERT_TRUE(world.nic().set_mtu(1500).ok());
  world.nic().refuse_settings = true;  // an interface of the kernel, privileges dropped
  world.run_until_open();
  const host::NicController& controller = world.host().controller();
  EXPECT_EQ(controller.last_status(host::NicRequest::kSetMtu), CfgStatus::kGood);
  const auto jumbo = make_ethernet(kLanMac, host_mac(0), 1, 9014);
  ASSERT_TRUE(world.os().set_mtu(9000).ok());
  world.os().inject(jumbo);
  world.run();
  EXPECT_EQ(controller.last_status(host::NicRequest::kSetMtu), CfgStatus::kLimited);
  EXPECT_EQ(world.host().controller().counters().get(host::ControllerCounter::kLimited), 1u);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kTooLongForMtu), 1u);
  EXPECT_TRUE(world.nic().written.empty());
  world.nic().refuse_settings = false;
  ASSERT_TRUE(world.nic().set_mtu(9000).ok());  // by whoever may
  world.os().inject(jumbo);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{jumbo});
  ASSERT_TRUE(world.os().set_mtu(1500).ok());
  world.run();
  world.os().inject(jumbo);
  world.run();
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kTooLongForMtu), 2u);
}

/// An address that a host has taken by configuration belongs to it as the one that it opened its session
/// with. Given back, it is free again.
TEST(UnitHalf, an_address_that_another_host_took_later_admits_nobody_else) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  const auto take = [&world](const MacAddress& mac) {
    ASSERT_NE(world.session(0).request_config({.request_class = CfgClass::kMacConfig,
                                               .code = static_cast<uint16_t>(MacConfigCode::kSetMac),
                                               .data = std::as_bytes(std::span(mac))}),
              0u);
    world.run();
  };
  DriverWorld::Node& late = world.nodes[world.hosts[1].node];
  late.paused = true;
  world.run_for(500ms);
  ASSERT_EQ(world.session(0).state(), session::SessionState::kOpen);
  take(host_mac(1));
  late.paused = false;
  world.run_for(500ms);
  const session::SessionAcceptor& acceptor = *world.units[0].acceptor;
  EXPECT_NE(world.session(1).state(), session::SessionState::kOpen);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kHostsAdmitted), 1u);
  EXPECT_GT(acceptor.counters().get(session::AcceptorCounter::kRefusedMacTaken), 0u);
  const auto frame = make_ethernet(host_mac(1), kLanMac, 1);
  world.nic().inject(frame);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.os(0)), Frames{frame});
  take(host_mac(0));
  world.run_for(10s);
  EXPECT_EQ(world.session(1).state(), session::SessionState::kOpen);
}

/// A frame that the LAN has and a neighbour has not is not sent to the LAN again when its sender dies.
TEST(UnitHalf, a_frame_half_way_at_the_death_of_its_host_reaches_everybody_once) {
  DriverWorldConfig config;
  config.hosts = 2;
  config.pools.front().elements = 4;
  DriverWorld world(config);
  world.run_until_open();
  world.os(1).busy = true;
  for (uint32_t i = 0; i < 40; ++i) world.os(0).inject(make_ethernet(kMacBroadcast, host_mac(0), i));
  world.run(2000);
  ASSERT_GT(world.unit().counters().get(iou::UnitCounter::kHostBusyTurns), 0u);
  host_comes_back(world);
  world.run();
  world.os(1).busy = false;
  world.run_for(50ms, 20us);
  const Frames at_lan = DriverWorld::taken(world.nic());
  EXPECT_EQ(at_lan, DriverWorld::taken(world.os(1)));
  for (auto frame = at_lan.begin(); frame != at_lan.end(); ++frame) {
    EXPECT_EQ(std::count(at_lan.begin(), at_lan.end(), *frame), 1);
  }
}

/// What a host that takes nothing costs its neighbours ends after kSlowHostMax, whoever sends to it.
TEST(UnitHalf, a_host_that_takes_nothing_does_not_stop_the_frames_of_another) {
  DriverWorldConfig config;
  config.hosts = 3;
  config.pools.front().elements = 4;
  DriverWorld world(config);
  world.run_until_open();
  world.os(1).busy = true;
  Frames sent;
  for (uint32_t i = 0; i < 60; ++i) {
    sent.push_back(make_ethernet(kMacBroadcast, host_mac(0), i));
    world.os(0).inject(sent.back());
  }
  world.run_for(iou::kSlowHostMax / 2);
  EXPECT_LT(world.nic().written.size(), sent.size());
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0u);
  world.run_for(200ms);
  EXPECT_EQ(DriverWorld::taken(world.nic()), sent);
  EXPECT_EQ(DriverWorld::taken(world.os(2)), sent);
  const uint64_t dropped = world.unit().counters().get(iou::UnitCounter::kSlowHostDrops);
  EXPECT_GT(dropped, 0u);
  std::vector<uint64_t> of_each;
  for (const auto& client : world.unit().clients())
    if (client.statistics.drops != 0) of_each.push_back(client.statistics.drops);
  EXPECT_EQ(of_each, std::vector{dropped}) << "in the statistics of the host that missed them";
  world.os(1).busy = false;
  world.run_for(50ms);
  const Frames first = DriverWorld::taken(world.os(1));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), sent.begin())) << "those before it was given up";
  world.os(0).inject(sent.front());
  world.run_for(50ms);
  EXPECT_EQ(DriverWorld::taken(world.os(1)), Frames{sent.front()}) << "back among the others";
  const uint64_t before = world.unit().counters().get(iou::UnitCounter::kSlowHostDrops);
  world.os(1).busy = true;
  for (const auto& frame : sent) world.os(0).inject(frame);
  world.run_for(iou::kSlowHostMax / 2);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), before)
      << "and waited for like them";
}

TEST(UnitHalf, while_its_own_port_is_down_no_host_is_slow) {
  for (const bool from_lan : {false, true}) {
    DriverWorldConfig config;
    config.hosts = 2;
    config.pools.front().elements = 4;
    DriverWorld world(config);
    world.run_until_open();
    world.os(1).busy = true;
    Frames sent;
    for (uint32_t i = 0; i < 40; ++i) {
      sent.push_back(make_ethernet(host_mac(1), from_lan ? kLanMac : host_mac(0), i));
      (from_lan ? world.nic() : world.os(0)).inject(sent.back());
    }
    world.run_for(iou::kSlowHostMax / 2);
    world.cable_of_unit(0).unplug();
    world.run_for(iou::kSlowHostMax + 100ms);
    world.os(1).busy = false;
    EXPECT_EQ(world.cable_of_unit(0).plug(world.clock.now()), LinkRefusal::kNone);
    world.run_for(500ms);
    EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kSlowHostDrops), 0u);
    EXPECT_EQ(DriverWorld::taken(world.os(1)), sent);
  }
}

TEST(UnitHalf, frames_for_a_host_that_left_go_to_the_lan) {
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  world.session(1).close();
  world.run_for(100ms);
  const auto frame = make_ethernet(host_mac(1), host_mac(0), 1);
  world.os(0).inject(frame);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{frame});
}

/// The unit may allow in the new session what it refused in the old one.
TEST(UnitHalf, promiscuous_mode_is_asked_for_again_in_each_session) {
  DriverWorld world;
  world.run_until_open();
  world.os().switch_filters(true, false);
  world.run();
  const auto& counters = world.unit().config().counters();
  ASSERT_EQ(counters.get(iou::ConfigCounter::kPromiscuousRefused), 1U);
  world.session().close();
  world.run_for(100ms);
  world.host().open();
  world.run_until_open();
  world.run_for(100ms);
  EXPECT_EQ(counters.get(iou::ConfigCounter::kPromiscuousRefused), 2U);
}

TEST(UnitHalf, a_session_that_is_back_in_time_keeps_the_carrier) {
  DriverWorld world;
  world.run_until_open();
  world.session().close();
  world.run_for(host::kCarrierGrace / 2);
  world.host().open();
  world.run_until_open();
  world.run_for(host::kCarrierGrace);
  EXPECT_TRUE(world.os().carrier_set);
  EXPECT_EQ(world.host().counters().get(host::HostCounter::kCarrierDown), 1U) << "before the first one";
}

/// The carrier's time runs from the loss of the session, whatever becomes of it afterwards.
TEST(UnitHalf, giving_a_lost_session_up_does_not_prolong_the_carrier) {
  DriverWorld world;
  world.run_until_open();
  world.nodes[world.units[0].node].paused = true;
  while (world.session().state() == session::SessionState::kOpen) world.turn(1ms);
  world.run_for(host::kCarrierGrace / 2);
  EXPECT_TRUE(world.os().carrier_set);
  world.session().close();
  EXPECT_EQ(world.session().state(), session::SessionState::kIdle);
  world.run_for(host::kCarrierGrace / 2 + 2ms);
  EXPECT_FALSE(world.os().carrier_set);
}

TEST(UnitHalf, a_host_that_is_back_before_it_was_missed_takes_its_own_place) {
  DriverWorld world;
  world.run_until_open();
  host_comes_back(world);
  world.run_for(50ms);
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kHostsRefusedMac), 0u);
}

TEST(UnitHalf, a_link_event_that_nobody_confirmed_is_told_again) {
  DriverWorld world;
  world.run_until_open();
  const uint64_t before = world.unit().counters().get(iou::UnitCounter::kLinkEvents);
  world.nic().carrier_up = false;
  world.nodes[world.hosts[0].node].paused = true;
  world.run_for(session::SessionLimits{}.config_timeout + 100ms);
  world.nodes[world.hosts[0].node].paused = false;
  world.run_for(50ms);
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kLinkEvents), before + 2);
  EXPECT_FALSE(world.os().carrier_set);
}

TEST(UnitHalf, features_are_granted_within_what_the_session_agreed_on) {
  DriverWorldConfig config;
  config.host_offloads = Offload::kChecksum;
  config.nic_offloads = Offload::kChecksum | Offload::kTso4;
  DriverWorld world(config);
  world.run_until_open();
  std::array<std::byte, 4> wanted{};
  encode_u32(static_cast<uint32_t>(config.nic_offloads), wanted);
  ASSERT_NE(world.session().request_config({.request_class = CfgClass::kMacConfig,
                                            .code = static_cast<uint16_t>(MacConfigCode::kSetFeatures),
                                            .data = wanted}),
            0u);
  world.run();
  EXPECT_EQ(world.unit().clients().front().features, Offload::kChecksum);
}

TEST(UnitHalf, the_interface_of_a_host_does_what_was_granted_and_no_more) {
  DriverWorldConfig config;
  config.host_offloads = config.nic_offloads = Offload::kChecksum | Offload::kTso4;
  DriverWorld world(config);
  world.run_until_open();
  ASSERT_EQ(world.os().offloads_set, Offload::kChecksum | Offload::kTso4);
  world.host().controller().set_features(Offload::kChecksum);
  world.run();
  EXPECT_EQ(world.host().controller().granted(), Offload::kChecksum);
  EXPECT_EQ(world.os().offloads_set, Offload::kChecksum);
  world.session().close();
  world.run(2000);
  ASSERT_EQ(world.session().state(), session::SessionState::kIdle);
  EXPECT_EQ(world.host().controller().granted(), Offload::kNone) << "nothing outlives the session";
}

/// Two hosts share the NIC's own address; one alone may have it.
TEST(UnitHalf, the_nic_takes_the_address_of_its_only_host) {
  for (const uint32_t hosts : {1U, 2U}) {
    DriverWorldConfig config;
    config.hosts = hosts;
    config.policy.program_nic_mac = true;
    DriverWorld world(config);
    world.run_until_open();
    const MacAddress before = world.nic().info().mac;
    constexpr MacAddress kOther{2, 0, 0, 0, 0, 0x77};
    world.host(0).controller().set_mac(kOther);
    world.run();
    EXPECT_EQ(world.nic().info().mac, hosts == 1 ? kOther : before);
  }
}

TEST(UnitHalf, initialise_begins_anew) {
  DriverWorldConfig config;
  config.host_offloads = config.nic_offloads = Offload::kChecksum;
  config.policy.promiscuous_allowed = true;
  DriverWorld world(config);
  world.run_until_open();
  NicFilters filters;
  filters.promiscuous = true;
  world.host().controller().set_filters(filters);
  world.host().controller().set_mtu(1300);
  world.host().controller().set_features(Offload::kNone);
  world.run();
  const iou::UnitClient& client = world.unit().clients().front();
  EXPECT_TRUE(client.filters.promiscuous);
  ASSERT_EQ(client.features, Offload::kNone);
  ASSERT_NE(world.session().request_config({.request_class = CfgClass::kMacConfig,
                                            .code = static_cast<uint16_t>(MacConfigCode::kInitialise)}),
            0u);
  world.run();
  EXPECT_FALSE(client.filters.promiscuous);
  EXPECT_EQ(client.mtu_bytes, world.nic().info().mtu_bytes);
  EXPECT_EQ(client.features, Offload::kChecksum);
}

TEST(UnitHalf, a_setting_that_nobody_confirmed_is_asked_for_again) {
  DriverWorld world;
  world.run_until_open();
  const auto& counters = world.host().controller().counters();
  const uint64_t before = counters.get(host::ControllerCounter::kRequests);
  world.host().controller().set_mtu(1300);
  world.nodes[world.units[0].node].paused = true;
  world.run_for(session::SessionLimits{}.config_timeout + 100ms);
  world.nodes[world.units[0].node].paused = false;
  world.run_for(50ms);
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
  EXPECT_EQ(counters.get(host::ControllerCounter::kRequests), before + 2);
  EXPECT_TRUE(world.host().controller().settled());
}

TEST(UnitHalf, statistics_say_what_became_of_each_frame) {
  DriverWorld world;
  world.run_until_open();
  const auto out = [&world] {
    world.os().inject(make_ethernet(kLanMac, host_mac(0), 1, 100));
    world.run();
  };
  out();
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 1, 300));
  world.os().inject(make_ethernet(kLanMac, kLanMac, 1, 100));  // not its own address
  world.run();
  world.nic().drop = true;
  out();
  world.nic().drop = false;
  world.nic().down = true;
  out();
  EXPECT_EQ(
      world.unit().clients().front().statistics,
      (NicStatistics{
          .frames_in = 1, .bytes_in = 300, .frames_out = 1, .bytes_out = 100, .drops = 2, .errors = 1}));
}

}  // namespace
}  // namespace weft::test
