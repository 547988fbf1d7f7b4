// weft-host: a host as a process. Opens the OS interfaces, drops every capability, joins the fabric, and
// keeps one session with each I/O unit.
#include <fmt/format.h>

#include <algorithm>

#include "base/net/kernel_port.h"
#include "base/rng.h"
#include "base/words.h"
#include "hca/hca.h"
#include "host_driver/host_netdev.h"
#include "host_driver/nic_report.h"
#include "host_driver/os_port.h"
#include "host_driver/traffic_control.h"
#include "node/endnode_process.h"
#include "node/spec_codec.h"

namespace weft::host {
namespace {

constexpr const char* kProgram = "weft-host";
static_assert(node::kMtuMax == kMtuBytesMax);

/// A stable, locally administered address, different for each unit.
MacAddress mac_for(Guid guid, size_t index) {
  uint64_t x = guid.value() * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 32;
  return {0x02,
          static_cast<uint8_t>(x >> 24),
          static_cast<uint8_t>(x >> 16),
          static_cast<uint8_t>(x >> 8),
          static_cast<uint8_t>(x),
          static_cast<uint8_t>(index)};
}

/// An OS interface, with its session and driver half once there is an adapter.
struct Interface {
  const node::HostPortSpec* spec = nullptr;
  std::unique_ptr<CapturePort> port;
  GenPort* gen = nullptr;  // `port`, if it is a generator
  std::unique_ptr<session::NetdevSession> session;
  std::unique_ptr<HostNetdev> half;
};

/// Opens everything that may need a capability. Generators are called gen0, gen1, as `weft traffic --port`
/// counts.
Status open_interfaces(const node::HostSpec& spec, const Clock& clock, std::vector<Interface>& out) {
  // A host at a spare port has no GUID yet and gets a different one each time, so its station address is
  // random.
  const Guid station = spec.guid != Guid{} ? spec.guid : Guid(SystemRandom().next());
  size_t generators = 0;
  for (size_t i = 0; i < spec.ports.size(); ++i) {
    const node::HostPortSpec& port = spec.ports[i];
    const MacAddress mac = port.mac.value_or(mac_for(station, i));
    Result<OsPort> opened = open_os(port.os, port.fd, mac, clock);
    if (!opened) return opened.error();
    Interface interface;
    interface.spec = &port;
    interface.gen = opened->gen;
    std::string label = label_of(port.os);
    if (interface.gen != nullptr) label += fmt::to_string(generators++);
    interface.port = std::make_unique<CapturePort>(std::move(opened->port), std::move(label));
    if (port.mac || interface.gen != nullptr)
      if (Status set = interface.port->set_mac(mac); !set) return set;
    if (port.mtu_bytes != 0)
      if (Status set = interface.port->set_mtu(port.mtu_bytes); !set) return set;
    out.push_back(std::move(interface));
  }
  return {};
}

session::SessionConfig session_config(const node::HostSpec& spec, const Interface& interface) {
  const FramePortInfo& port = interface.port->info();
  session::SessionConfig config;
  config.role = session::SessionRole::kHost;
  config.name = fmt::format("unit {}", interface.spec->unit.value());
  config.mode = spec.mode;
  config.encoding = spec.encoding;
  config.acks = spec.acks;
  config.pools = node::session_pools(spec);
  const bool rdma = spec.mode == TransferMode::kRdma;
  config.frame_bytes_max = rdma ? kGsoFrameBytesMax : kJumboFrameBytes;
  config.features = rdma ? port.offloads : Offload::kNone;
  config.mac = port.mac;
  config.unit = interface.spec->unit;
  config.port = static_cast<uint8_t>(interface.spec->via);
  return config;
}

NicSettings nic_settings(const Interface& interface) {
  const FramePortInfo& port = interface.port->info();
  NicSettings settings;
  settings.mac = port.mac;
  settings.mtu_bytes = std::min(port.mtu_bytes, kMtuBytesMax);
  settings.features = port.offloads;
  settings.filters.promiscuous = interface.spec->promiscuous;
  return settings;
}

/// Why the session is not open; empty if unknown.
std::string why_not_open(const session::NetdevSession& session) {
  if (session.refusal() == session::SessionRefusal::kNone) return {};
  return fmt::format("session with lid {} refused: {}", session.config().unit.value(),
                     to_string(session.refusal()));
}

std::vector<CapturePort*> ports_of(const std::vector<Interface>& interfaces) {
  std::vector<CapturePort*> ports;
  ports.reserve(interfaces.size());
  for (const Interface& interface : interfaces) ports.push_back(interface.port.get());
  return ports;
}

std::vector<GenPort*> generators_of(const std::vector<Interface>& interfaces) {
  std::vector<GenPort*> generators;
  for (const Interface& interface : interfaces)
    if (interface.gen != nullptr) generators.push_back(interface.gen);
  return generators;
}

/// The sessions of a host, one per interface, and its answers to `weft`.
class HostProgram final : public node::EndnodeProgram {
 public:
  HostProgram(const node::HostSpec& spec, node::Endnode& endnode, std::vector<Interface> interfaces,
              RandomSource& random, StatsPage& page)
      : EndnodeProgram(spec, kProgram, endnode, ports_of(interfaces)),
        spec_(spec),
        interfaces_(std::move(interfaces)),
        traffic_(generators_of(interfaces_)) {
    for (Interface& interface : interfaces_) {
      interface.session =
          session::NetdevSession::make(session_config(spec, interface), endnode.session_ports(), random);
      interface.half =
          std::make_unique<HostNetdev>(*interface.session, *interface.port, nic_settings(interface));
      interface.half->publish(page, fmt::format("unit.{}", interface.spec->unit.value()));
      endnode.add(*interface.half);
      interface.half->open();
    }
  }

  void close() noexcept override {
    for (Interface& interface : interfaces_) interface.session->close();
  }
  [[nodiscard]] bool closed() const noexcept override {
    return std::all_of(interfaces_.begin(), interfaces_.end(), [](const Interface& interface) {
      return interface.session->state() == session::SessionState::kIdle;
    });
  }

  Status traffic_start(const control::TrafficRun& run) override { return traffic_.start(run); }
  Result<control::TrafficFigures> traffic_stop() override { return traffic_.stop(); }
  Result<control::TrafficFigures> traffic_report() override { return traffic_.report(); }
  Result<control::NicReport> nic_ask(const control::NicWish& wish) override {
    Result<Interface*> interface = find_interface(wish.interface);
    if (!interface) return interface.error();
    if (Status asked = ask_nic(*(*interface)->half, wish); !asked) return asked.error();
    return nic_report(wish.interface);
  }
  Result<control::NicReport> nic_report(const std::string& name) override {
    Result<Interface*> interface = find_interface(name);
    if (!interface) return interface.error();
    Result<control::NicReport> report = report_nic(*(*interface)->half);
    if (report) report->interface = name;
    return report;
  }

 private:
  void describe(control::NodeInfo& out) override {
    bool gone = false;
    for (const Interface& interface : interfaces_) {
      const session::NetdevSession& session = *interface.session;
      const bool open = session.state() == session::SessionState::kOpen;
      out.ready = out.ready && open;
      if (!open && out.fault.empty()) out.fault = why_not_open(session);
      if (out.fault.empty()) out.fault = interface_fault(*interface.port);
      gone = gone || interface.port->info().gone;
      out.sessions.push_back({.peer_lid = session.config().unit.value(),
                              .state = std::string(to_string(session.state())),
                              .mode = std::string(to_string(spec_.mode)),
                              .encoding = std::string(to_string(spec_.encoding)),
                              .mac = weft::to_string(interface.port->info().mac)});
    }
    out.state = out.ready ? "open" : "connecting";
    out.ready = out.ready && !gone;
  }
  Result<Interface*> find_interface(const std::string& name) {
    std::vector<std::string> known;
    for (Interface& interface : interfaces_) {
      if (interface.port->name() == name) return &interface;
      known.push_back(interface.port->name());
    }
    return Error{fmt::format("this host has no interface '{}'{}", name, choices(name, known))};
  }

  const node::HostSpec& spec_;
  std::vector<Interface> interfaces_;
  TrafficControl traffic_;
};

int main_program(const node::HostSpec& spec) {
  if (Status good = node::check_endpoint(spec); !good) return node::wrong_use(kProgram, good.error());
  std::vector<Interface> interfaces;
  node::EndnodeParts parts;
  parts.make_adapter = [&](RandomSource& random) {
    return std::make_unique<hca::Hca>(spec.guid, random, hca::hca_limits(), node::nics_of(spec));
  };
  parts.open_ports = [&](const Clock& clock) { return open_interfaces(spec, clock, interfaces); };
  parts.build = [&](node::Endnode& endnode, RandomSource& random, StatsPage& page) {
    return std::make_unique<HostProgram>(spec, endnode, std::move(interfaces), random, page);
  };
  return node::exit_code_of(node::run_endnode(spec, kProgram, parts));
}

}  // namespace
}  // namespace weft::host

int main(int argc, char** argv) {
  return weft::node::run_program<weft::node::HostSpec>(argc, argv, weft::host::main_program);
}
