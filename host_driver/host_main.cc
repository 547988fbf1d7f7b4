// weft-host: a host as a process. Opens the OS interfaces, gives up every right, joins the fabric, and keeps
// one session with each I/O unit.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "base/capture_set.h"
#include "base/ethernet.h"
#include "base/kernel_port.h"
#include "base/log.h"
#include "base/loop_runner.h"
#include "base/privileges.h"
#include "base/process_guard.h"
#include "base/tap_port.h"
#include "base/words.h"
#include "control/control_server.h"
#include "hca/hca.h"
#include "host_driver/gen_port.h"
#include "host_driver/host_netdev.h"
#include "host_driver/nic_report.h"
#include "host_driver/unix_port.h"
#include "node/endnode.h"

namespace weft::host {
namespace {

constexpr Duration kOrderlyEndMax = std::chrono::milliseconds(800);

struct Options {
  node::EndnodeOptions node;
  std::vector<std::string> units;
  std::vector<std::string> os;
  std::vector<std::string> os_fds;
  std::vector<std::string> macs;
  uint32_t mtu = 0;
  std::string mode = "rdma";
  std::string encoding = "capnp";
};

void declare(CommandLine& line, Options& out) {
  node::declare_endnode_options(line, out.node);
  line.texts("unit", "LID", out.units, "I/O unit to use; repeat for several");
  line.texts("os", "INTERFACE", out.os, "tap:NAME, gen: or unix:PATH; one per unit, in the same order");
  line.texts("os-fd", "N", out.os_fds, "descriptor of that interface, opened by the launcher; one per unit");
  line.texts("mac", "MAC", out.macs,
             "address of the interface; one per unit (made from the GUID unless given)");
  line.number("mtu", "BYTES", out.mtu, 68, kMtuBytesMax, "MTU of the interfaces");
  line.text("mode", "MODE", out.mode, "rdma, sendrecv or senddata");
  line.text("encoding", "NAME", out.encoding, "of driver messages: capnp or bytes");
}

bool parse_mode(const std::string& text, TransferMode& out) {
  if (text == "rdma")
    out = TransferMode::kRdma;
  else if (text == "sendrecv")
    out = TransferMode::kSendReceive;
  else if (text == "senddata")
    out = TransferMode::kSendDataOnly;
  else
    return false;
  return true;
}

/// Stable, locally administered, different for each unit.
MacAddress mac_for(uint64_t guid, size_t index) {
  uint64_t x = guid * 0x9E3779B97F4A7C15ULL;
  x ^= x >> 32;
  return {0x02,
          static_cast<uint8_t>(x >> 24),
          static_cast<uint8_t>(x >> 16),
          static_cast<uint8_t>(x >> 8),
          static_cast<uint8_t>(x),
          static_cast<uint8_t>(index)};
}

/// One OS interface with its session and driver half.
struct Interface {
  std::unique_ptr<CapturePort> port;
  GenPort* gen = nullptr;  // the port behind `port`, when it is one
  std::unique_ptr<session::NetdevSession> session;
  std::unique_ptr<HostNetdev> half;
};

Result<std::unique_ptr<FramePort>> open_os(const std::string& os, int fd, const MacAddress& mac,
                                           const Clock& clock, GenPort*& gen) {
  if (os.rfind("tap:", 0) == 0) {
    Result<std::unique_ptr<TapPort>> tap =
        fd >= 0 ? TapPort::adopt(UniqueFd(fd)) : TapPort::open(os.substr(4));
    if (!tap) return tap.error();
    return std::unique_ptr<FramePort>(std::move(*tap));
  }
  if (os.rfind("unix:", 0) == 0) {
    Result<std::unique_ptr<UnixPort>> stream =
        fd >= 0 ? UnixPort::adopt(UniqueFd(fd), mac) : UnixPort::listen(os.substr(5), mac);
    if (!stream) return stream.error();
    return std::unique_ptr<FramePort>(std::move(*stream));
  }
  auto station = std::make_unique<GenPort>(mac, clock);
  gen = station.get();
  return std::unique_ptr<FramePort>(std::move(station));
}

/// What was asked for on the command line, checked.
struct Plan {
  struct Item {
    Lid unit;
    std::string os;
    int fd = -1;
    MacAddress mac{};
    bool mac_given = false;
  };
  std::vector<Item> items;
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  std::vector<session::PoolClass> pools;
};

Status plan_item(const Options& options, size_t index, Plan::Item& item) {
  try {
    const unsigned long lid = std::stoul(options.units[index]);
    if (lid == 0 || lid > kLidMax) throw std::out_of_range("lid");
    item.unit = Lid(static_cast<uint16_t>(lid));
    if (index < options.os_fds.size()) item.fd = std::stoi(options.os_fds[index]);
  } catch (const std::exception&) {
    return Error{"--unit takes a LID from 1 to 65534, --os-fd a descriptor"};
  }
  item.os = options.os[index];
  const auto names_one = [&item](std::string_view kind) {
    return item.os.starts_with(kind) && item.os.size() > kind.size();
  };
  const bool known = item.os == "gen:" || names_one("tap:") || names_one("unix:");
  if (!known) return Error{"--os " + item.os + ": write tap:NAME, gen: or unix:PATH"};
  item.mac = mac_for(options.node.guid, index);
  if (index < options.macs.size()) {
    const std::optional<MacAddress> mac = parse_mac(options.macs[index]);
    if (!mac || !is_station(*mac)) {
      return Error{"--mac " + options.macs[index] +
                   ": six hexadecimal pairs with colons, not a group address"};
    }
    item.mac = *mac;
    item.mac_given = true;
  }
  return {};
}

Result<Plan> make_plan(const Options& options) {
  Plan plan;
  if (!parse_mode(options.mode, plan.mode))
    return Error{"--mode " + options.mode + ": rdma, sendrecv or senddata"};
  if (options.encoding != "capnp" && options.encoding != "bytes")
    return Error{"--encoding " + options.encoding + ": capnp or bytes"};
  if (options.encoding == "bytes") plan.encoding = MessageEncoding::kBytes;
  if (options.units.empty()) return Error{"--unit is missing: the LID of an I/O unit"};
  if (options.os.size() != options.units.size()) return Error{"give one --os for each --unit"};
  for (size_t i = 0; i < options.units.size(); ++i) {
    Plan::Item item;
    if (Status good = plan_item(options, i, item); !good) return good.error();
    plan.items.push_back(std::move(item));
  }
  Result<std::vector<session::PoolClass>> pools = node::parse_pools(options.node.pools);
  if (!pools) return pools.error();
  plan.pools = std::move(*pools);
  return plan;
}

session::SessionConfig session_config(const Plan& plan, const Plan::Item& item, const FramePortInfo& port) {
  session::SessionConfig config;
  config.role = session::SessionRole::kHost;
  config.name = fmt::format("unit {}", item.unit.value());
  config.mode = plan.mode;
  config.encoding = plan.encoding;
  config.pools = plan.pools;
  const bool rdma = plan.mode == TransferMode::kRdma;
  config.frame_bytes_max = rdma ? kGsoFrameBytesMax : kJumboFrameBytes;
  config.features = rdma ? port.offloads : Offload::kNone;
  config.mac = port.mac;
  config.unit = item.unit;
  return config;
}

/// "eth0" of "tap:eth0", the path of "unix:PATH", "gen0", "gen1" of generators, as `weft traffic --port`
/// counts.
std::string interface_name(const std::string& os, size_t generators_before) {
  return os == "gen:" ? fmt::format("gen{}", generators_before) : os.substr(os.find(':') + 1);
}

/// Opens everything that may need a right.
Status open_interfaces(const Options& options, const Plan& plan, const Clock& clock,
                       std::vector<Interface>& out) {
  size_t generators = 0;
  for (const Plan::Item& item : plan.items) {
    Interface interface;
    Result<std::unique_ptr<FramePort>> port = open_os(item.os, item.fd, item.mac, clock, interface.gen);
    if (!port) return port.error();
    interface.port = std::make_unique<CapturePort>(std::move(*port), interface_name(item.os, generators));
    generators += interface.gen != nullptr ? 1U : 0U;
    if (item.mac_given || item.os == "gen:") {
      if (Status set = interface.port->set_mac(item.mac); !set) return set;
    }
    if (options.mtu != 0) {
      if (Status set = interface.port->set_mtu(options.mtu); !set) return set;
    }
    out.push_back(std::move(interface));
  }
  return {};
}

NicSettings settings_for(const FramePortInfo& info) {
  NicSettings settings;
  settings.mac = info.mac;
  settings.mtu_bytes = std::min(info.mtu_bytes, kMtuBytesMax);
  settings.features = info.offloads;
  return settings;
}

/// Empty while it is not known.
std::string why_not_open(const session::NetdevSession& session) {
  if (session.refusal() == session::SessionRefusal::kNone) return {};
  return fmt::format("session with lid {} refused: {}", session.config().unit.value(),
                     to_string(session.refusal()));
}

control::RoundTripTimes times(const RoundTripFigures& from) {
  return {.count = from.count,
          .p50_ns = from.p50_ns,
          .p99_ns = from.p99_ns,
          .p999_ns = from.p999_ns,
          .max_ns = from.max_ns};
}

control::TrafficFigures figures(const TrafficResult& from, bool running) {
  control::TrafficFigures out;
  out.running = running;
  out.phase = to_string(from.phase);
  out.frames_sent = from.frames_sent;
  out.frames_received = from.frames_received;
  out.lost = from.lost;
  out.corrupted = from.corrupted;
  out.duplicated = from.duplicated;
  out.reordered = from.reordered;
  out.late = from.late;
  out.bulk_frames_received = from.bulk_frames_received;
  out.bulk_bytes_received = from.bulk_bytes_received;
  out.bulk_ns = from.bulk_ns;
  out.round_trip = times(from.round_trip);
  for (size_t i = 0; i < out.by_kind.size(); ++i) out.by_kind[i] = times(from.by_kind[i]);
  out.bulk_round_trip = times(from.bulk_round_trip);
  return out;
}

/// Who asks for a run asks for its report many times a second; a run that nobody asks about has lost its
/// asker.
constexpr Duration kTrafficLease = std::chrono::seconds(5);

TrafficSpec spec_of(const control::TrafficRun& run) {
  TrafficSpec spec;
  spec.lease = kTrafficLease;
  spec.round_trips = run.round_trips;
  spec.arp = run.arp;
  spec.icmp = run.icmp;
  spec.icmpv6 = run.icmpv6;
  spec.udp = run.udp;
  spec.round_trip_bytes = run.round_trip_bytes;
  spec.bulk_frames = run.bulk ? run.bulk_frames : 0;
  spec.bulk_duration = run.bulk ? std::chrono::milliseconds(run.bulk_duration_ms) : Duration{};
  spec.size_count = static_cast<uint32_t>(std::min<size_t>(run.sizes.size(), kGenSizesMax));
  std::copy_n(run.sizes.begin(), spec.size_count, spec.sizes.begin());
  spec.rate_per_s = run.rate;
  spec.window = run.window;
  if (run.timeout_ms != 0) spec.answer_timeout = std::chrono::milliseconds(run.timeout_ms);
  spec.seed = run.seed;
  for (size_t i = 0; i < 4 && run.target_ipv4 != 0; ++i) {
    spec.target_ipv4[i] = static_cast<uint8_t>(run.target_ipv4 >> (24 - 8 * i));
  }
  for (size_t i = 0; i < 8 && (run.target_ipv6_high | run.target_ipv6_low) != 0; ++i) {
    spec.target_ipv6[i] = static_cast<uint8_t>(run.target_ipv6_high >> (56 - 8 * i));
    spec.target_ipv6[8 + i] = static_cast<uint8_t>(run.target_ipv6_low >> (56 - 8 * i));
  }
  return spec;
}

std::vector<CapturePort*> ports_of(const std::vector<Interface>& interfaces) {
  std::vector<CapturePort*> ports(interfaces.size());
  std::transform(interfaces.begin(), interfaces.end(), ports.begin(),
                 [](const Interface& interface) { return interface.port.get(); });
  return ports;
}

/// What `weft` asks of this process.
class HostControl final : public control::ControlHandler {
 public:
  HostControl(const Options& options, const node::Endnode& endnode, std::vector<Interface>& interfaces)
      : options_(options), endnode_(endnode), interfaces_(interfaces), captures_(ports_of(interfaces)) {}

  control::NodeInfo info() override {
    control::NodeInfo out = endnode_.describe(options_.node, "weft-host");
    bool gone = false;
    for (Interface& interface : interfaces_) {
      const session::NetdevSession& session = *interface.session;
      const bool open = session.state() == session::SessionState::kOpen;
      out.ready = out.ready && open;
      if (!open && out.fault.empty()) out.fault = why_not_open(session);
      const std::string fault = interface_fault(*interface.port);
      if (out.fault.empty()) out.fault = fault;
      gone = gone || interface.port->info().gone;
      out.interfaces.push_back(interface.port->name());
      out.sessions.push_back({.peer_lid = session.config().unit.value(),
                              .state = std::string(to_string(session.state())),
                              .mode = options_.mode,
                              .encoding = options_.encoding,
                              .mac = weft::to_string(interface.port->info().mac)});
    }
    out.state = out.ready ? "open" : "connecting";
    if (gone) out.ready = false;
    return out;
  }
  Status traffic_start(const control::TrafficRun& run) override {
    Result<GenPort*> gen = find_gen(run.port);
    if (!gen) return gen.error();
    if (!(*gen)->finished()) return Error{"a run is on already; wait for its end"};
    last_ = *gen;
    return (*gen)->start(spec_of(run));
  }
  Result<control::TrafficFigures> traffic_stop() override {
    if (last_ != nullptr) last_->stop();
    return traffic_report();
  }
  Result<control::TrafficFigures> traffic_report() override {
    if (last_ == nullptr) return Error{"no traffic was started since this host began"};
    last_->renew();
    return figures(last_->result(), !last_->finished());
  }
  Status capture_start(const control::CaptureSpec& spec) override {
    return captures_.start({spec.path, spec.interface, spec.frame_bytes_max, spec.ring_bytes,
                            static_cast<pid_t>(spec.reader_pid)});
  }
  Status capture_stop(const std::string& path) override {
    captures_.stop(path);
    return {};
  }
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
  Result<Interface*> find_interface(const std::string& name) {
    std::vector<std::string> known;
    for (Interface& interface : interfaces_) {
      if (interface.port->name() == name) return &interface;
      known.push_back(interface.port->name());
    }
    return Error{fmt::format("this host has no interface '{}'{}", name, choices(name, known))};
  }
  Result<GenPort*> find_gen(uint16_t index) {
    uint16_t found = 0;
    for (Interface& interface : interfaces_) {
      if (interface.gen != nullptr && found++ == index) return interface.gen;
    }
    if (found == 0) return Error{"this host has no generator; traffic needs one whose os is \"gen\""};
    return Error{fmt::format("this host has no generator {}, its last one is {}", index, found - 1)};
  }

  const Options& options_;
  const node::Endnode& endnode_;
  std::vector<Interface>& interfaces_;
  CaptureSet captures_;
  GenPort* last_ = nullptr;
};

/// Flushes the pools and says good-bye, for a bounded time.
void end_orderly(node::Endnode& node, std::vector<Interface>& interfaces, const Clock& clock) {
  for (Interface& interface : interfaces) interface.session->close();
  const Instant until = clock.now() + kOrderlyEndMax;
  bool idle = false;
  while (!idle && clock.now() < until) {
    idle = node.poll(clock.now()) == 0;
    if (idle) std::this_thread::sleep_for(std::chrono::microseconds(50));
    for (Interface& interface : interfaces)
      idle = idle && interface.session->state() == session::SessionState::kIdle;
  }
}

Status run(const Options& options, const Plan& plan) {
  const MonotonicClock clock;
  SystemRandom random;
  LoopRunner loop(clock);
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::create(loop, options.node.parent());
  if (!guard) return guard.error();
  std::optional<StatsPage> page;        // outlives the counters on it
  std::unique_ptr<node::Endnode> node;  // outlives the sessions on its adapter
  std::vector<Interface> interfaces;
  if (Status opened = open_interfaces(options, plan, clock, interfaces); !opened) return opened;
  if (Status dropped = drop_privileges(); !dropped) return dropped;
  const std::string base = options.node.file_base();
  Result<StatsPage> made = StatsPage::create(base + ".stats");
  if (!made) return made.error();
  page = std::move(*made);
  Result<std::unique_ptr<node::Endnode>> created = node::Endnode::create(
      options.node, std::make_unique<hca::Hca>(Guid(options.node.guid), random), random);
  if (!created) return created.error();
  node = std::move(*created);
  node->publish(*page);
  for (size_t i = 0; i < interfaces.size(); ++i) {
    Interface& interface = interfaces[i];
    const FramePortInfo& info = interface.port->info();
    interface.session = std::make_unique<session::NetdevSession>(session_config(plan, plan.items[i], info),
                                                                 node->adapter(), random);
    interface.half = std::make_unique<HostNetdev>(*interface.session, *interface.port, settings_for(info));
    interface.half->publish(*page, fmt::format("unit.{}", plan.items[i].unit.value()));
    node->add(*interface.half);
    interface.half->open();
  }
  HostControl handler(options, *node, interfaces);
  Result<std::unique_ptr<control::ControlServer>> control =
      control::ControlServer::open(base + ".ctl", handler);
  if (!control) return control.error();
  page->publish("loop", loop.counters());
  page->publish("control", (*control)->counters());
  loop.add(*node);
  loop.add(**control);
  loop.add(**guard);
  if (Status bound = node::bind_loop(options.node); !bound) return bound;
  loop.run();
  end_orderly(*node, interfaces, clock);
  return {};
}

int main_program(int argc, char** argv) {
  CommandLine line("weft-host",
                   "weft-host --name NAME --lid N --guid HEX --switch ENDPOINT --unit LID --os INTERFACE",
                   "The host half of the split network driver: joins an OS interface to an I/O unit.");
  Options options;
  declare(line, options);
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (const Status good = node::check_endnode_options("weft-host", options.node); !good) {
    return line.wrong_use(good.error().text);
  }
  Result<Plan> plan = make_plan(options);
  if (!plan) return line.wrong_use(plan.error().text);
  return node::exit_code_of(run(options, *plan));
}

}  // namespace
}  // namespace weft::host

int main(int argc, char** argv) {
  return weft::host::main_program(argc, argv);
}
