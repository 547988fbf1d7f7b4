// Nodes, units and the LAN behind them: PUSH-NODE, PUSH-DRV, PUSH-CFG over a switch, in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <type_traits>

#include "messages/cell.h"
#include "messages/flit.h"
#include "tests/support/driver_world.h"
#include "tests/support/requirement.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using Frames = std::vector<std::vector<std::byte>>;

TEST(PushNode, PUSH_NODE_01_every_host_reaches_every_unit_through_the_switch) {
  covers("PUSH-NODE-01");
  DriverWorldConfig config;
  config.units = 2;
  config.hosts = 2;
  config.uses = {{0, 1}, {0, 1}};
  DriverWorld world(config);
  world.run_until_open();
  for (uint32_t h = 0; h < 2; ++h) {
    for (uint32_t u = 0; u < 2; ++u) {
      world.os(h, u).inject(make_ethernet(kLanMac, host_mac(h), 10 * h + u));
      world.nic(u).inject(make_ethernet(host_mac(h), kLanMac, 100 + 10 * h + u));
    }
  }
  world.run();
  for (uint32_t h = 0; h < 2; ++h) {
    for (uint32_t u = 0; u < 2; ++u) {
      EXPECT_EQ(DriverWorld::taken(world.os(h, u)),
                Frames{make_ethernet(host_mac(h), kLanMac, 100 + 10 * h + u)});
    }
  }
  for (uint32_t u = 0; u < 2; ++u) {
    const Frames at_lan = DriverWorld::taken(world.nic(u));
    const Frames wanted{make_ethernet(kLanMac, host_mac(0), u), make_ethernet(kLanMac, host_mac(1), 10 + u)};
    EXPECT_TRUE(std::is_permutation(at_lan.begin(), at_lan.end(), wanted.begin(), wanted.end()))
        << at_lan.size();
  }
}

TEST(PushNode, PUSH_NODE_04_two_hosts_share_a_unit_and_both_move_data) {
  covers("PUSH-NODE-04");
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  Frames wanted[2];
  for (uint32_t i = 0; i < 50; ++i) {
    for (uint32_t h = 0; h < 2; ++h) {
      world.os(h).inject(make_ethernet(kLanMac, host_mac(h), i));
      world.nic().inject(make_ethernet(host_mac(h), kLanMac, 1000 + i + 50 * h));
      wanted[h].push_back(make_ethernet(host_mac(h), kLanMac, 1000 + i + 50 * h));
    }
  }
  world.run(3000);
  for (uint32_t h = 0; h < 2; ++h) EXPECT_EQ(DriverWorld::taken(world.os(h)), wanted[h]);
  EXPECT_EQ(world.nic().written.size(), 100u);
  EXPECT_EQ(world.unit().clients().size(), 2u);
  // The unit has its own address and keeps working when one host has gone.
  world.cable_of_host(0).unplug();
  world.os(1).inject(make_ethernet(kLanMac, host_mac(1), 7777));
  world.nic().written.clear();
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kLanMac, host_mac(1), 7777)});
}

/// A host with a two-port adapter has one session per port. Both carry frames at once; when one link is cut,
/// the
/// session over the other one goes on.
TEST(SanNodePorts, SAN_NODE_03_both_ports_of_a_host_carry_traffic) {
  DriverWorldConfig config;
  config.units = 2;
  config.ports_per_host = 2;
  config.uses = {{0, 1}};
  DriverWorld world(config);
  world.run_until_open();
  const auto cells_of = [&](size_t port) {
    const auto number = static_cast<fabric::PortNumber>(world.hosts[0].node + port);
    return world.fabric->port(number).counters.get(fabric::SwitchPortCounter::kCellsIn);
  };
  const std::array<uint64_t, 2> before{cells_of(1), cells_of(2)};
  constexpr uint32_t kFrames = 100;
  Frames out[2];
  Frames in[2];
  for (uint32_t i = 0; i < kFrames; ++i) {
    for (uint32_t u = 0; u < 2; ++u) {
      out[u].push_back(make_ethernet(kLanMac, host_mac(0), 1000 * u + i));
      in[u].push_back(make_ethernet(host_mac(0), kLanMac, 5000 + 1000 * u + i));
      world.os(0, u).inject(out[u].back());
      world.nic(u).inject(in[u].back());
    }
  }
  world.run(3000);
  covers("SAN-NODE-03");
  for (uint32_t u = 0; u < 2; ++u) {
    EXPECT_EQ(DriverWorld::taken(world.nic(u)), out[u]) << "unit " << u;
    EXPECT_EQ(DriverWorld::taken(world.os(0, u)), in[u]) << "unit " << u;
    EXPECT_GE(cells_of(u + 1) - before[u], kFrames) << "port " << u + 1;
  }
  // Cut one of several paths.
  world.cable_of_host(0, 1).unplug();
  world.os(0, 1).inject(out[1].front());
  world.nic(1).inject(in[1].front());
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic(1)), Frames{out[1].front()});
  EXPECT_EQ(DriverWorld::taken(world.os(0, 1)), Frames{in[1].front()});
  EXPECT_FALSE(world.session(0, 0).port_up());
  EXPECT_TRUE(world.session(0, 1).port_up());
}

/// Records the local addresses in the header of every cell.
class CellWatch final : public fabric::FlitObserver {
 public:
  void on_flit(uint32_t, std::span<const std::byte> flit) noexcept override {
    if (static_cast<uint8_t>(flit[0]) >> 4 != static_cast<uint8_t>(FlitKind::kData)) return;
    if (flit.size() < kFlitHeaderBytes + 32) return;
    const std::byte* cell = flit.data() + kFlitHeaderBytes;
    lids.insert(load_be<uint16_t>(cell + 4));
    lids.insert(load_be<uint16_t>(cell + 10));
  }
  std::set<uint16_t> lids;
};

TEST(PushNode, PUSH_NODE_05_a_lan_object_outside_the_fabric_is_reached_through_the_unit) {
  covers("PUSH-NODE-05");
  CellWatch watch;
  DriverWorldConfig config;
  config.observer = &watch;
  DriverWorld world(config);
  world.run_until_open();
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 1));
  world.run();
  ASSERT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(kLanMac, host_mac(0), 1)});
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 2));
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.os()), Frames{make_ethernet(host_mac(0), kLanMac, 2)});
  // Only the endnodes have fabric addresses: LID 1 is the unit, LID 2 the host.
  EXPECT_EQ(watch.lids, (std::set<uint16_t>{1, 2}));
}

/// What finds the endnodes of a fabric, its table of LIDs, does not grow with the objects of the LAN, and no
/// adapter makes an object for one of them. The NIC itself, a device attached to the unit, is reached too.
TEST(PushNode, PUSH_NODE_05_many_lan_objects_are_no_part_of_the_fabric) {
  covers("PUSH-NODE-05");
  DriverWorld world;
  world.run_until_open();
  const auto endnodes = [&] {
    std::set<uint16_t> lids;
    for (uint32_t lid = 1; lid < 0xC000; ++lid) {
      const Lid at(static_cast<uint16_t>(lid));
      if (world.fabric->forwarding().find(1, at) != fabric::kPortNone) lids.insert(at.value());
    }
    return lids;
  };
  const auto agent_calls = [&] {
    uint64_t calls = 0;
    for (const DriverWorld::Node& node : world.nodes)
      calls += node.adapter->counters().get(adapter::AdapterCounter::kAgentCalls);
    return calls;
  };
  ASSERT_EQ(endnodes(), (std::set<uint16_t>{1, 2}));
  const uint64_t calls = agent_calls();
  for (uint32_t i = 0; i < 100; ++i) {
    const MacAddress object{0x02, 0, 0, 0, 0xBB, static_cast<uint8_t>(i)};
    world.os().inject(make_ethernet(object, host_mac(0), i));
    world.run(40);
    EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{make_ethernet(object, host_mac(0), i)});
    world.nic().inject(make_ethernet(host_mac(0), object, 1000 + i));
    world.run(40);
    EXPECT_EQ(DriverWorld::taken(world.os()), Frames{make_ethernet(host_mac(0), object, 1000 + i)});
  }
  EXPECT_EQ(endnodes(), (std::set<uint16_t>{1, 2}));
  EXPECT_EQ(agent_calls(), calls) << "no queue pair, no memory for an object of the LAN";
  world.host().controller().read_statistics();
  world.run();
  ASSERT_EQ(world.host().controller().statistics_read(), 1U);
  EXPECT_EQ(world.host().controller().statistics().frames_out, 100U);
  EXPECT_EQ(world.host().controller().statistics().frames_in, 100U);
}

TEST(PushCfg, PUSH_CFG_03_initialise_set_mac_and_read_statistics) {
  covers("PUSH-CFG-03 PUSH-DRV-06");
  DriverWorld world;
  world.run_until_open();
  EXPECT_EQ(world.host().controller().last_status(host::NicRequest::kInitialise), CfgStatus::kGood);
  const MacAddress other{0x02, 0, 0, 0, 0, 0x2A};
  world.host().controller().set_mac(other);
  world.run();
  EXPECT_EQ(world.host().controller().last_status(host::NicRequest::kSetMac), CfgStatus::kGood);
  EXPECT_EQ(world.nic().info().mac, other);
  world.os().inject(make_ethernet(kLanMac, other, 1, 300));
  world.os().inject(make_ethernet(kLanMac, other, 2, 64));
  world.nic().inject(make_ethernet(other, kLanMac, 3, 1000));
  world.run();
  ASSERT_EQ(world.nic().written.size(), 2u);
  EXPECT_EQ(source_of(world.nic().written[0].data() + kVnetBytes), other);
  world.host().controller().read_statistics();
  world.run();
  ASSERT_EQ(world.host().controller().statistics_read(), 1u);
  const NicStatistics& read = world.host().controller().statistics();
  const CounterSet<PortCounter>& model = world.nic().counters();
  EXPECT_EQ(read.frames_out, model.get(PortCounter::kFramesWritten));
  EXPECT_EQ(read.bytes_out, model.get(PortCounter::kBytesWritten));
  EXPECT_EQ(read.frames_in, model.get(PortCounter::kFramesRead));
  EXPECT_EQ(read.bytes_in, model.get(PortCounter::kBytesRead));
  EXPECT_EQ(read.frames_out, 2u);
  EXPECT_EQ(read.bytes_in, 1000u);
}

TEST(PushDrv, PUSH_DRV_01_cutting_the_fabric_ends_all_contact) {
  covers("PUSH-DRV-01");
  DriverWorld world;
  world.run_until_open();
  world.cable_of_unit(0).unplug();
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 1));
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 2));
  world.run_for(1s);
  EXPECT_TRUE(world.nic().written.empty());
  EXPECT_TRUE(world.os().written.empty());
  // Plugged in again, both sides open a session again.
  EXPECT_EQ(world.cable_of_unit(0).plug(world.clock.now()), LinkRefusal::kNone);
  world.run_for(3s);
  world.run_until_open();
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 3));
  world.run();
  const Frames at_lan = DriverWorld::taken(world.nic());
  ASSERT_FALSE(at_lan.empty());
  EXPECT_EQ(at_lan.back(), make_ethernet(kLanMac, host_mac(0), 3));
}

/// The project's headers that `file` includes, directly or through other headers.
std::set<std::string> includes_of(const std::string& file, std::set<std::string> seen = {}) {
  const char* root = std::getenv("WEFT_SOURCE");
  std::ifstream in(std::string(root != nullptr ? root : ".") + "/" + file);
  const std::regex include(R"re(#include "([^"]+)")re");
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, include) || !seen.insert(match[1]).second) continue;
    seen = includes_of(match[1], std::move(seen));
  }
  return seen;
}

/// The channel interface is below the messaging layer: a driver half reaches no adapter header.
void expect_above_the_channel_interface(const std::set<std::string>& headers) {
  ASSERT_TRUE(headers.contains("session/netdev_session.h"));
  for (const char* below :
       {"adapter/adapter.h", "adapter/verbs.h", "adapter/memory/memory_table.h", "fabric/link/cell_port.h"}) {
    EXPECT_FALSE(headers.contains(below)) << below;
  }
}

/// Adapter and NIC share the memory: the NIC sends the bytes that the adapter wrote, and the adapter sends
/// those
/// that the NIC read. A byte changed in that memory in between arrives changed. Only the head of an outbound
/// frame is private (decisions section 4).
TEST(PushNode, PUSH_NODE_06_adapter_and_nic_work_on_the_same_memory) {
  covers("PUSH-NODE-06");
  constexpr uint32_t kPlace = 500;
  static_assert(kPlace > kFrameHeadBytes);
  DriverWorld world;
  world.run_until_open();
  std::vector<std::byte> expected = make_ethernet(kLanMac, host_mac(0), 1, 1000);
  world.os().inject(expected);
  world.nic().before_write = [&world] {
    const session::InboundFrame* frame = world.units[0].acceptor->sessions()[0]->front_frame();
    ASSERT_NE(frame, nullptr);
    const_cast<std::byte*>(frame->bytes.data())[kVnetBytes + kPlace] ^= std::byte{1};
  };
  world.run();
  expected[kPlace] ^= std::byte{1};
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{expected});

  world.nic().before_write = nullptr;
  expected = make_ethernet(host_mac(0), kLanMac, 2, 1000);
  world.nic().inject(expected);
  for (int i = 0; i < 1000 && world.nic().read_into.empty(); ++i) world.turn();
  ASSERT_EQ(world.nic().read_into.size(), 1U);
  EXPECT_TRUE(world.os().written.empty());
  world.nic().read_into[0][kVnetBytes + kPlace] ^= std::byte{1};
  world.run();
  expected[kPlace] ^= std::byte{1};
  EXPECT_EQ(DriverWorld::taken(world.os()), Frames{expected});
}

TEST(PushDrv, PUSH_DRV_02_host_half_is_os_interface_messaging_and_channel_interface) {
  covers("PUSH-DRV-02");
  if (std::getenv("WEFT_SOURCE") == nullptr)
    GTEST_SKIP() << "WEFT_SOURCE is not set; ctest sets it to the source tree";
  // A half is constructed from an OS interface and a messaging layer only.
  static_assert(std::is_constructible_v<host::HostNetdev, session::NetdevSession&, FramePort&,
                                        const host::NicSettings&>);
  static_assert(std::is_base_of_v<FramePort, MemoryFramePort>);
  const std::set<std::string> headers =
      includes_of("host_driver/host_netdev.h", includes_of("host_driver/host_netdev.cc"));
  ASSERT_TRUE(headers.contains("base/net/frame_port.h"));
  expect_above_the_channel_interface(headers);
  // The messaging layer is the one that reaches the adapter.
  EXPECT_TRUE(includes_of("session/endpoint.h").contains("adapter/adapter.h"));
}

TEST(PushDrv, PUSH_DRV_03_unit_half_is_os_interface_messaging_channel_and_lan_interface) {
  covers("PUSH-DRV-03");
  if (std::getenv("WEFT_SOURCE") == nullptr)
    GTEST_SKIP() << "WEFT_SOURCE is not set; ctest sets it to the source tree";
  static_assert(
      std::is_constructible_v<iou::IouNetdev, session::SessionAcceptor&, FramePort&, const iou::NicPolicy&>);
  std::set<std::string> headers = includes_of("iou_driver/iou_netdev.cc");
  headers = includes_of("iou_driver/iou_switching.cc", headers);
  headers = includes_of("iou_driver/nic_config_service.cc", headers);
  expect_above_the_channel_interface(headers);
  // The half touches the NIC through the LAN interface only and knows no kind of NIC.
  for (const char* nic : {"iou_driver/echo_nic.h", "iou_driver/packet_nic.h", "iou_driver/slirp_nic.h",
                          "base/net/tap_port.h"}) {
    EXPECT_FALSE(headers.contains(nic)) << nic;
  }
  EXPECT_FALSE(includes_of("session/session_acceptor.cc").contains("iou_driver/iou_netdev.h"));
}

TEST(PushDrv, PUSH_DRV_07_inbound_lan_frames_reach_the_host_stack_unchanged) {
  covers("PUSH-DRV-07");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    DriverWorldConfig config;
    config.mode = mode;
    DriverWorld world(config);
    world.run_until_open();
    Frames wanted;
    for (const uint32_t bytes : {14u, 60u, 256u, 257u, 1514u, 2048u, 9018u}) {
      wanted.push_back(make_ethernet(host_mac(0), kLanMac, bytes, bytes));
      world.nic().inject(wanted.back());
    }
    world.run(2000);
    EXPECT_EQ(DriverWorld::taken(world.os()), wanted) << to_string(mode);
    const CounterSet<session::SessionCounter>& unit = world.units[0].acceptor->sessions()[0]->counters();
    if (mode == TransferMode::kRdma) {
      EXPECT_EQ(unit.get(session::SessionCounter::kWritesWithIdata), wanted.size());
    }
  }
}

TEST(PushDrv, PUSH_DRV_08_outbound_host_packets_leave_the_nic_unchanged) {
  covers("PUSH-DRV-08");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    DriverWorldConfig config;
    config.mode = mode;
    DriverWorld world(config);
    world.run_until_open();
    Frames wanted;
    for (const uint32_t bytes : {14u, 60u, 256u, 257u, 1514u, 1518u}) {
      wanted.push_back(make_ethernet(kLanMac, host_mac(0), bytes, bytes));
      world.os().inject(wanted.back());
    }
    world.run(2000);
    EXPECT_EQ(DriverWorld::taken(world.nic()), wanted) << to_string(mode);
    if (mode == TransferMode::kRdma) {
      EXPECT_EQ(world.session().counters().get(session::SessionCounter::kWritesWithIdata), wanted.size());
    }
  }
}

}  // namespace
}  // namespace weft::test
