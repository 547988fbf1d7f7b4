// tests/support/driver_world.h -- whole fabrics in virtual time: a switch, hosts and I/O units with the
// production adapters, sessions and driver halves, and MemoryFramePorts as operating systems and LANs.
// Endnode i sits on switch port i + 1 with LID i + 1: units first, then hosts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "adapter/adapter.h"
#include "base/endian.h"
#include "base/log.h"
#include "base/net/ethernet.h"
#include "fabric/link/link_cell_port.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"
#include "session/netdev_session.h"
#include "session/session_port.h"
#include "sim/fabric/sim_fabric.h"
#include "tests/support/memory_frame_port.h"

namespace weft::test {

inline MacAddress host_mac(uint32_t index) {
  return {0x02, 0, 0, 0, 0x10, static_cast<uint8_t>(index)};
}
inline constexpr MacAddress kLanMac{0x02, 0, 0, 0, 0xAA, 0x01};  // an object on the LAN

/// An Ethernet frame whose payload depends on `number` and place.
inline std::vector<std::byte> make_ethernet(const MacAddress& to, const MacAddress& from, uint32_t number,
                                            uint32_t frame_bytes = 200, uint16_t ethertype = 0x88B5) {
  std::vector<std::byte> frame(frame_bytes);
  std::memcpy(frame.data(), to.data(), 6);
  std::memcpy(frame.data() + 6, from.data(), 6);
  store_be(frame.data() + 12, ethertype);
  for (uint32_t i = kEthernetHeaderBytes; i < frame_bytes; ++i) {
    frame[i] = static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
  }
  return frame;
}

struct DriverWorldConfig {
  uint32_t units = 1;
  uint32_t hosts = 1;
  uint32_t ports_per_host = 1;  // interface i of a host goes by port 1 + i % ports_per_host of its adapter
  std::vector<std::vector<uint32_t>> uses;  // units of each host; empty: each host uses unit 0
  uint32_t cell_payload_bytes = 256;
  uint32_t credits = 32;
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  std::vector<session::PoolClass> pools = {{2048, 16}, {65536, 4}};
  uint32_t frame_bytes_max = kGsoFrameBytesMax;  // of sessions in RDMA mode, and of the hosts' interfaces
  Offload host_offloads = Offload::kNone;
  Offload nic_offloads = Offload::kNone;
  iou::NicPolicy policy;
  std::vector<MacAddress> macs;  // of hosts; host_mac() where missing
  fabric::FlitObserver* observer = nullptr;
  uint64_t seed = 1;
};

class DriverWorld {
 public:
  /// Sees the wire between an endnode and the switch.
  struct Node {
    std::unique_ptr<fabric::LinkCellPort> port;
    std::unique_ptr<adapter::ChannelAdapter> adapter;  // null: a further port of the node before
    std::unique_ptr<session::SessionPorts> session_ports;
    bool paused = false;  // not polled: a stopped process
  };
  struct Unit {
    size_t node = 0;
    std::unique_ptr<MemoryFramePort> nic;
    std::unique_ptr<session::SessionAcceptor> acceptor;
    std::unique_ptr<iou::IouNetdev> half;
  };
  struct HostInterface {
    size_t unit = 0;
    std::unique_ptr<MemoryFramePort> os;
    std::unique_ptr<session::NetdevSession> session;
    std::unique_ptr<host::HostNetdev> half;
  };
  struct Host {
    size_t node = 0;
    std::vector<HostInterface> interfaces;
  };

  explicit DriverWorld(const DriverWorldConfig& wanted = {})
      : config(wanted), random(wanted.seed), links(links_of(wanted), random) {
    log_setup("test", LogLevel::kError);
    EXPECT_EQ(links.start(clock.now()), LinkRefusal::kNone);
    fabric = links.switch_at(0);
    for (uint32_t i = 0; i < config.units; ++i) make_unit();
    for (uint32_t i = 0; i < config.hosts; ++i) make_host(i);
  }

  [[nodiscard]] MemoryFramePort& nic(size_t unit = 0) { return *units[unit].nic; }
  [[nodiscard]] MemoryFramePort& os(size_t host = 0, size_t interface = 0) {
    return *hosts[host].interfaces[interface].os;
  }
  [[nodiscard]] host::HostNetdev& host(size_t index = 0, size_t interface = 0) {
    return *hosts[index].interfaces[interface].half;
  }
  [[nodiscard]] iou::IouNetdev& unit(size_t index = 0) { return *units[index].half; }
  [[nodiscard]] session::NetdevSession& session(size_t index = 0, size_t interface = 0) {
    return *hosts[index].interfaces[interface].session;
  }
  [[nodiscard]] fabric::MemoryCable& cable_of_unit(size_t unit) { return cable_of(units[unit].node); }
  [[nodiscard]] fabric::MemoryCable& cable_of_host(size_t host, size_t port = 1) {
    return cable_of(hosts[host].node + port - 1);
  }

  void turn(Duration step = std::chrono::microseconds(5)) {
    clock.advance(step);
    const Instant now = clock.now();
    for (Unit& unit : units) {
      if (nodes[unit.node].paused) continue;
      nodes[unit.node].adapter->poll(now);
      unit.half->poll(now);
    }
    for (Host& host : hosts) {
      if (nodes[host.node].paused) continue;
      nodes[host.node].adapter->poll(now);
      for (HostInterface& interface : host.interfaces) interface.half->poll(now);
    }
    fabric->poll(now);
  }
  void run(int turns = 400, Duration step = std::chrono::microseconds(5)) {
    for (int i = 0; i < turns; ++i) turn(step);
  }
  void run_for(Duration time, Duration step = std::chrono::microseconds(500)) {
    for (const Instant end = clock.now() + time; clock.now() < end;) turn(step);
  }
  /// Until every session is open and configured; fails the test after 10 virtual seconds.
  void run_until_open() {
    for (int i = 0; i < 200'000; ++i) {
      if (all_open()) return;
      turn(std::chrono::microseconds(50));
    }
    FAIL() << "sessions did not open";
  }
  [[nodiscard]] bool all_open() {
    for (Host& host : hosts) {
      for (HostInterface& interface : host.interfaces) {
        if (interface.session->state() != session::SessionState::kOpen) return false;
        if (!interface.half->controller().settled()) return false;
      }
    }
    return true;
  }

  /// Ethernet parts of what was written, without vnet headers; empties the list.
  static std::vector<std::vector<std::byte>> taken(MemoryFramePort& port) {
    std::vector<std::vector<std::byte>> frames;
    for (const auto& bytes : port.written) frames.emplace_back(bytes.begin() + kVnetBytes, bytes.end());
    port.written.clear();
    port.head_bytes.clear();
    return frames;
  }

  DriverWorldConfig config;
  ManualClock clock;
  SeededRandom random;
  sim::SimFabric links;
  fabric::Switch* fabric = nullptr;
  std::vector<Node> nodes;
  std::vector<Unit> units;
  std::vector<Host> hosts;

 private:
  static sim::SimFabricConfig links_of(const DriverWorldConfig& wanted) {
    sim::SimFabricConfig out{.endnode_guid = Guid(0x100),
                             .endnodes = wanted.units + wanted.hosts * wanted.ports_per_host};
    out.switching.ports = out.endnodes;
    out.switching.link.guid = Guid(0x5);
    out.switching.link.cell_payload_bytes = wanted.cell_payload_bytes;
    out.switching.link.credits_per_lane = wanted.credits;
    out.refine = [&](uint32_t, fabric::MemoryCableConfig& cable) { cable.observer = wanted.observer; };
    return out;
  }
  [[nodiscard]] fabric::MemoryCable& cable_of(size_t node) {
    return links.cable(static_cast<uint32_t>(node));
  }
  size_t make_node(uint32_t ports = 1) {
    const size_t first = nodes.size();
    auto made = std::make_unique<adapter::ChannelAdapter>(adapter::AdapterConfig{.guid = Guid(0x100 + first)},
                                                          random);
    for (uint32_t i = 0; i < ports; ++i) {
      Node node;
      node.port = std::make_unique<fabric::LinkCellPort>(cable_of(nodes.size()).end(0));
      made->ports().attach(*node.port);
      nodes.push_back(std::move(node));
    }
    nodes[first].session_ports = std::make_unique<session::SessionPorts>(*made);
    nodes[first].adapter = std::move(made);
    return first;
  }
  session::SessionConfig session_config(session::SessionRole role, const MemoryFramePort& port) const {
    session::SessionConfig out;
    out.role = role;
    out.mode = config.mode;
    out.encoding = config.encoding;
    out.pools = config.pools;
    out.frame_bytes_max = config.mode == TransferMode::kRdma ? config.frame_bytes_max : kJumboFrameBytes;
    out.features = port.info().offloads;
    out.mac = port.info().mac;
    return out;
  }
  void make_unit() {
    Unit unit;
    unit.node = make_node();
    unit.nic = std::make_unique<MemoryFramePort>(
        MacAddress{0x02, 0, 0, 0, 0xEE, static_cast<uint8_t>(unit.node)}, config.nic_offloads, 9000, 65524);
    session::AcceptorConfig acceptor;
    acceptor.session = session_config(session::SessionRole::kUnit, *unit.nic);
    unit.acceptor =
        std::make_unique<session::SessionAcceptor>(acceptor, *nodes[unit.node].session_ports, random);
    unit.half = std::make_unique<iou::IouNetdev>(*unit.acceptor, *unit.nic, config.policy);
    units.push_back(std::move(unit));
  }
  void make_host(uint32_t index) {
    Host host;
    host.node = make_node(config.ports_per_host);
    const std::vector<uint32_t> uses =
        index < config.uses.size() ? config.uses[index] : std::vector<uint32_t>{0};
    for (const uint32_t unit : uses) {
      HostInterface interface;
      interface.unit = unit;
      const MacAddress mac = index < config.macs.size() ? config.macs[index] : host_mac(index);
      interface.os =
          std::make_unique<MemoryFramePort>(mac, config.host_offloads, 1500, config.frame_bytes_max);
      session::SessionConfig session = session_config(session::SessionRole::kHost, *interface.os);
      session.port = static_cast<uint8_t>(1 + host.interfaces.size() % config.ports_per_host);
      session.unit = Lid(static_cast<uint16_t>(units[unit].node + 1));
      interface.session = session::NetdevSession::make(session, *nodes[host.node].session_ports, random);
      host::NicSettings settings;
      settings.mac = mac;
      settings.features = config.host_offloads;
      interface.half = std::make_unique<host::HostNetdev>(*interface.session, *interface.os, settings);
      interface.half->open();
      host.interfaces.push_back(std::move(interface));
    }
    hosts.push_back(std::move(host));
  }
};

/// The host dies and is there again before anybody has missed it.
inline void host_comes_back(DriverWorld& world, uint32_t host = 0) {
  DriverWorld::HostInterface& interface = world.hosts[host].interfaces[0];
  interface.half.reset();
  const session::SessionConfig session{.pools = world.config.pools, .mac = host_mac(host), .unit = Lid(1)};
  interface.session =
      session::NetdevSession::make(session, *world.nodes[world.hosts[host].node].session_ports, world.random);
  ::weft::host::NicSettings settings;
  settings.mac = host_mac(host);
  interface.half = std::make_unique<::weft::host::HostNetdev>(*interface.session, *interface.os, settings);
  interface.half->open();
}

}  // namespace weft::test
