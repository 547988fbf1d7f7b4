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
#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"
#include "session/netdev_session.h"
#include "session/session_port.h"
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
    std::unique_ptr<fabric::MemoryCable> cable;
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

  explicit DriverWorld(const DriverWorldConfig& wanted = {}) : config(wanted), random(wanted.seed) {
    log_setup("test", LogLevel::kError);
    fabric::SwitchConfig switching;
    switching.ports = config.units + config.hosts * config.ports_per_host;
    switching.link.guid = Guid(0x5);
    switching.link.cell_payload_bytes = config.cell_payload_bytes;
    switching.link.credits_per_lane = config.credits;
    fabric = std::make_unique<fabric::Switch>(switching);
    for (uint32_t i = 0; i < config.units; ++i) make_unit(switching.link);
    for (uint32_t i = 0; i < config.hosts; ++i) make_host(switching.link, i);
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
  [[nodiscard]] fabric::MemoryCable& cable_of_unit(size_t unit) { return *nodes[units[unit].node].cable; }
  [[nodiscard]] fabric::MemoryCable& cable_of_host(size_t host, size_t port = 1) {
    return *nodes[hosts[host].node + port - 1].cable;
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
  std::unique_ptr<fabric::Switch> fabric;
  std::vector<Node> nodes;
  std::vector<Unit> units;
  std::vector<Host> hosts;

 private:
  size_t make_node(const fabric::LinkConfig& link, uint32_t ports = 1) {
    const size_t first = nodes.size();
    auto made = std::make_unique<adapter::ChannelAdapter>(adapter::AdapterConfig{.guid = Guid(0x100 + first)},
                                                          random);
    for (uint32_t i = 0; i < ports; ++i) make_port(link, *made);
    nodes[first].session_ports = std::make_unique<session::SessionPorts>(*made);
    nodes[first].adapter = std::move(made);
    return first;
  }
  void make_port(const fabric::LinkConfig& link, adapter::ChannelAdapter& adapter) {
    const size_t index = nodes.size();
    const auto number = static_cast<uint16_t>(index + 1);
    fabric::MemoryCableConfig cable;
    cable.ends[0] = cable.ends[1] = link;
    cable.ends[0].guid = Guid(0x100 + index);
    cable.ends[0].lid = Lid(number);
    cable.grant.port = number;
    cable.observer = config.observer;
    Node node;
    node.cable = std::make_unique<fabric::MemoryCable>(cable, random);
    node.port = std::make_unique<fabric::LinkCellPort>(node.cable->end(0));
    adapter.attach(*node.port);
    fabric->attach(static_cast<fabric::PortNumber>(number), node.cable->end(1));
    fabric->forwarding().set(Lid(number), static_cast<fabric::PortNumber>(number));
    EXPECT_EQ(node.cable->plug(clock.now()), LinkRefusal::kNone);
    nodes.push_back(std::move(node));
  }
  session::SessionConfig session_config(session::SessionRole role, const MemoryFramePort& port) const {
    session::SessionConfig out;
    out.role = role;
    out.mode = config.mode;
    out.encoding = config.encoding;
    out.pools = config.pools;
    out.frame_bytes_max = config.mode == TransferMode::kRdma ? kGsoFrameBytesMax : kJumboFrameBytes;
    out.features = port.info().offloads;
    out.mac = port.info().mac;
    return out;
  }
  void make_unit(const fabric::LinkConfig& link) {
    Unit unit;
    unit.node = make_node(link);
    unit.nic = std::make_unique<MemoryFramePort>(
        MacAddress{0x02, 0, 0, 0, 0xEE, static_cast<uint8_t>(unit.node)}, config.nic_offloads, 9000, 65524);
    session::AcceptorConfig acceptor;
    acceptor.session = session_config(session::SessionRole::kUnit, *unit.nic);
    unit.acceptor =
        std::make_unique<session::SessionAcceptor>(acceptor, *nodes[unit.node].session_ports, random);
    unit.half = std::make_unique<iou::IouNetdev>(*unit.acceptor, *unit.nic, config.policy);
    units.push_back(std::move(unit));
  }
  void make_host(const fabric::LinkConfig& link, uint32_t index) {
    Host host;
    host.node = make_node(link, config.ports_per_host);
    const std::vector<uint32_t> uses =
        index < config.uses.size() ? config.uses[index] : std::vector<uint32_t>{0};
    for (const uint32_t unit : uses) {
      HostInterface interface;
      interface.unit = unit;
      const MacAddress mac = index < config.macs.size() ? config.macs[index] : host_mac(index);
      interface.os = std::make_unique<MemoryFramePort>(mac, config.host_offloads, 1500, 65524);
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

}  // namespace weft::test
