// weft-iou: an I/O unit as a process. Opens the LAN NIC, gives up every right, joins the fabric, and serves
// the hosts that come.
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
#include "control/control_server.h"
#include "iou_driver/echo_nic.h"
#include "iou_driver/iou_netdev.h"
#include "iou_driver/packet_nic.h"
#include "iou_driver/pcap_nic.h"
#include "iou_driver/slirp_nic.h"
#include "node/endnode.h"
#include "tca/tca.h"

namespace weft::iou {
namespace {

constexpr Duration kOrderlyEndMax = std::chrono::milliseconds(800);

struct Options {
  node::EndnodeOptions node;
  std::string nic;
  uint32_t nic_fd = UINT32_MAX;  // none
  bool bridge = false;
  bool promiscuous_allowed = false;
  uint32_t sessions = 16;
};

void declare(CommandLine& line, Options& out) {
  node::declare_endnode_options(line, out.node);
  line.text("nic", "NIC", out.nic, "tap:NAME, packet:INTERFACE, slirp, pcap:IN[,OUT] or echo");
  line.number("nic-fd", "N", out.nic_fd, 0, INT32_MAX, "descriptor of that NIC, opened by the launcher");
  line.flag("bridge", out.bridge, "hosts may send frames with source addresses that are not their own");
  line.flag("promiscuous-allowed", out.promiscuous_allowed, "hosts may ask for their neighbours' frames");
  line.number("sessions", "N", out.sessions, 1, kUnitClientsMax, "most hosts at a time");
}

Result<std::unique_ptr<FramePort>> open_pcap(const std::string& files) {
  const size_t comma = files.find(',');
  const std::string in = files.substr(0, comma);
  const std::string out = comma == std::string::npos ? "" : files.substr(comma + 1);
  Result<std::unique_ptr<PcapNic>> nic = PcapNic::open(in, out, {0x02, 0, 0, 0, 0x9C, 0x01});
  if (!nic) return nic.error();
  return std::unique_ptr<FramePort>(std::move(*nic));
}

Result<std::unique_ptr<FramePort>> open_nic(const Options& options, const Clock& clock) {
  const int fd = options.nic_fd == UINT32_MAX ? -1 : static_cast<int>(options.nic_fd);
  if (options.nic.rfind("tap:", 0) == 0) {
    Result<std::unique_ptr<TapPort>> tap =
        fd >= 0 ? TapPort::adopt(UniqueFd(fd)) : TapPort::open(options.nic.substr(4));
    if (!tap) return tap.error();
    return std::unique_ptr<FramePort>(std::move(*tap));
  }
  if (options.nic.rfind("packet:", 0) == 0) {
    const std::string interface = options.nic.substr(7);
    Result<std::unique_ptr<PacketNic>> packet =
        fd >= 0 ? PacketNic::adopt(UniqueFd(fd), interface) : PacketNic::open(interface);
    if (!packet) return packet.error();
    return std::unique_ptr<FramePort>(std::move(*packet));
  }
  if (options.nic.rfind("pcap:", 0) == 0) return open_pcap(options.nic.substr(5));
  if (options.nic == "slirp") {
    Result<std::unique_ptr<SlirpNic>> slirp = SlirpNic::open(SlirpNicConfig{}, clock);
    if (!slirp) return slirp.error();
    return std::unique_ptr<FramePort>(std::move(*slirp));
  }
  return std::unique_ptr<FramePort>(std::make_unique<EchoNic>(EchoNicConfig{}));
}

/// "lan0" of "tap:lan0" and "packet:lan0"; else the kind.
std::string nic_name(const std::string& nic) {
  const size_t colon = nic.find(':');
  return nic.starts_with("pcap:") || colon == std::string::npos ? nic.substr(0, colon)
                                                                : nic.substr(colon + 1);
}

bool nic_known(const std::string& nic) {
  const auto names_one = [&nic](std::string_view kind) {
    return nic.starts_with(kind) && nic.size() > kind.size();
  };
  return nic == "echo" || nic == "slirp" || names_one("tap:") || names_one("packet:") || names_one("pcap:");
}

session::AcceptorConfig acceptor_config(const Options& options, std::vector<session::PoolClass> pools,
                                        const FramePortInfo& nic) {
  session::AcceptorConfig config;
  config.session.role = session::SessionRole::kUnit;
  config.session.name = "host";
  config.session.pools = std::move(pools);
  config.session.features = nic.offloads;
  config.session.mac = nic.mac;
  config.sessions_max = options.sessions;
  return config;
}

/// What `weft` asks of this process.
class UnitControl final : public control::ControlHandler {
 public:
  UnitControl(const Options& options, const node::Endnode& endnode, CapturePort& port,
              session::SessionAcceptor& acceptor, const IouNetdev& half)
      : options_(options),
        endnode_(endnode),
        port_(port),
        acceptor_(acceptor),
        half_(half),
        captures_({&port}) {}

  control::NodeInfo info() override {
    control::NodeInfo out = endnode_.describe(options_.node, "weft-iou");
    out.state = "listening";
    out.interfaces.push_back(port_.name());
    if (port_.info().gone) out.ready = false;
    if (out.fault.empty()) out.fault = interface_fault(port_);
    for (const session::NetdevSession* session : acceptor_.sessions()) {
      const session::SessionPeer& peer = session->peer();
      out.sessions.push_back({.peer_lid = peer.lid.value(),
                              .state = std::string(to_string(session->state())),
                              .mode = std::string(to_string(peer.mode)),
                              .encoding = std::string(to_string(peer.encoding)),
                              .mac = to_string(mac_of(*session))});
      if (session->state() == session::SessionState::kOpen) out.state = "open";
    }
    return out;
  }
  Status capture_start(const control::CaptureSpec& spec) override {
    return captures_.start({spec.path, spec.interface, spec.frame_bytes_max, spec.ring_bytes,
                            static_cast<pid_t>(spec.reader_pid)});
  }
  Status capture_stop(const std::string& path) override {
    captures_.stop(path);
    return {};
  }

 private:
  /// The address that the host has now: it may have changed since the session began.
  [[nodiscard]] MacAddress mac_of(const session::NetdevSession& session) const {
    for (const UnitClient& client : half_.clients()) {
      if (client.session == &session && client.active) return client.mac;
    }
    return session.peer().mac;
  }

  const Options& options_;
  const node::Endnode& endnode_;
  CapturePort& port_;
  session::SessionAcceptor& acceptor_;
  const IouNetdev& half_;
  CaptureSet captures_;
};

/// Flushes the pools and says good-bye, for a bounded time.
void end_orderly(node::Endnode& node, session::SessionAcceptor& acceptor, const Clock& clock) {
  acceptor.close();
  const Instant until = clock.now() + kOrderlyEndMax;
  while (!acceptor.all_idle() && clock.now() < until) {
    if (node.poll(clock.now()) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status run(const Options& options, std::vector<session::PoolClass> pools) {
  const MonotonicClock clock;
  SystemRandom random;
  LoopRunner loop(clock);
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::create(loop, options.node.parent());
  if (!guard) return guard.error();
  std::optional<StatsPage> page;  // outlives the counters on it
  Result<std::unique_ptr<FramePort>> nic = open_nic(options, clock);
  if (!nic) return nic.error();
  CapturePort port(std::move(*nic), nic_name(options.nic));
  if (Status dropped = drop_privileges(); !dropped) return dropped;
  const std::string base = options.node.file_base();
  Result<StatsPage> made = StatsPage::create(base + ".stats");
  if (!made) return made.error();
  page = std::move(*made);
  auto tca = std::make_unique<tca::Tca>(Guid(options.node.guid), random, tca::tca_limits(options.sessions));
  Result<std::unique_ptr<node::Endnode>> node = node::Endnode::create(options.node, std::move(tca), random);
  if (!node) return node.error();
  session::SessionAcceptor acceptor(acceptor_config(options, std::move(pools), port.info()),
                                    (*node)->adapter(), random);
  // Interfaces of the kernel keep their own address: their other side is a stack of its own.
  const bool model = port.info().kind != "tap" && port.info().kind != "packet";
  IouNetdev half(acceptor, port,
                 {.bridge = options.bridge,
                  .promiscuous_allowed = options.promiscuous_allowed,
                  .program_nic_mac = model});
  port.set_carrier(true);
  (*node)->publish(*page);
  half.publish(*page, "unit");
  (*node)->add(half);
  UnitControl handler(options, **node, port, acceptor, half);
  Result<std::unique_ptr<control::ControlServer>> control =
      control::ControlServer::open(base + ".ctl", handler);
  if (!control) return control.error();
  page->publish("loop", loop.counters());
  page->publish("control", (*control)->counters());
  loop.add(**node);
  loop.add(**control);
  loop.add(**guard);
  if (Status bound = node::bind_loop(options.node); !bound) return bound;
  loop.run();
  end_orderly(**node, acceptor, clock);
  return {};
}

int main_program(int argc, char** argv) {
  CommandLine line(
      "weft-iou", "weft-iou --name NAME --lid N --guid HEX --switch ENDPOINT --nic NIC",
      "The I/O unit half of the split network driver: shares a LAN NIC among the hosts of a fabric.");
  Options options;
  declare(line, options);
  if (const std::optional<int> code = line.parse(argc, argv)) return *code;
  if (const Status good = node::check_endnode_options("weft-iou", options.node); !good) {
    return line.wrong_use(good.error().text);
  }
  if (options.nic.empty()) return line.wrong_use("--nic is missing: echo needs no right and no network");
  if (!nic_known(options.nic)) {
    return line.wrong_use("--nic " + options.nic +
                          ": write tap:NAME, packet:INTERFACE, slirp, pcap:IN[,OUT] or echo");
  }
  Result<std::vector<session::PoolClass>> pools = node::parse_pools(options.node.pools);
  if (!pools) return line.wrong_use(pools.error().text);
  return node::exit_code_of(run(options, std::move(*pools)));
}

}  // namespace
}  // namespace weft::iou

int main(int argc, char** argv) {
  return weft::iou::main_program(argc, argv);
}
