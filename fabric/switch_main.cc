// weft-switch: a switch as a process. Builds the core, the admission by node table and the acceptors; the
// core does the rest.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/log.h"
#include "base/loop_runner.h"
#include "base/process_guard.h"
#include "base/stats_page.h"
#include "fabric/admission.h"
#include "fabric/control_server.h"
#include "fabric/node_options.h"
#include "fabric/shm_acceptor.h"
#include "fabric/switch.h"
#include "fabric/zmq_acceptor.h"

namespace weft {
namespace {

struct Options : NodeOptions {
  std::vector<std::string> nodes;
  std::vector<std::string> listen;
  std::string curve_allow;
  uint32_t ports = 0;
  bool cut_through = false;
};

void declare(CommandLine& line, Options& out) {
  declare_node_options(line, out);
  line.texts("node", "NAME=GUID:LID", out.nodes,
             "a node that may join; repeat. Node i gets port i. GUID in hex");
  line.number("ports", "N", out.ports, 1, PortSet::kPortsMax - 1, "ports; as many as nodes unless given");
  line.texts(
      "listen", "ENDPOINT", out.listen,
      "also serve nodes over ZeroMQ at ipc://PATH or tcp://ADDR:PORT; repeat. One endpoint serves all nodes");
  line.text("curve-allow", "FILE", out.curve_allow, "who may join: lines NAME GUIDHEX PUBLICKEY");
  line.flag("cut-through", out.cut_through, "forward a cell before its tail has come");
}

/// "NAME=GUIDHEX:LID".
Result<NodeEntry> parse_node(const std::string& text) {
  const size_t equals = text.find('=');
  const size_t colon = text.rfind(':');
  if (equals == std::string::npos || colon == std::string::npos || equals == 0 || colon < equals) {
    return Error{fmt::format("--node {}: write NAME=GUID:LID", text)};
  }
  const char* begin = text.data();
  const char* guid_from = begin + equals + 1;
  if (text.compare(equals + 1, 2, "0x") == 0) guid_from += 2;
  uint64_t guid = 0;
  uint16_t lid = 0;
  const auto guid_end = std::from_chars(guid_from, begin + colon, guid, 16);
  const auto lid_end = std::from_chars(begin + colon + 1, begin + text.size(), lid);
  if (guid_end.ec != std::errc() || guid_end.ptr != begin + colon || lid_end.ec != std::errc() ||
      lid_end.ptr != begin + text.size()) {
    return Error{fmt::format("--node {}: the GUID is hexadecimal, the LID 1 to {}", text, kLidMax)};
  }
  return NodeEntry{text.substr(0, equals), Guid(guid), Lid(lid)};
}

/// Options to configuration; the error text is for the user.
Status configure(const Options& options, SwitchConfig& config, std::vector<NodeEntry>& nodes) {
  for (const std::string& text : options.nodes) {
    Result<NodeEntry> node = parse_node(text);
    if (!node) return node.error();
    nodes.push_back(std::move(*node));
  }
  config.ports =
      options.ports != 0 ? options.ports : static_cast<uint32_t>(std::max<size_t>(nodes.size(), 1));
  config.link = link_config(options);
  config.link.cut_through = options.cut_through;
  if (Status fits = Admission::check(nodes, config.ports); !fits) return fits;
  return Switch::check(config);
}

/// Keys and endpoints; names and GUIDs of the two tables must agree.
Status configure_zmq(const Options& options, const std::vector<NodeEntry>& nodes, ZmqAcceptorConfig& out) {
  out.endpoints = options.listen;
  if (options.curve_secret.empty() != options.curve_allow.empty()) {
    return Error{"--curve-secret and --curve-allow belong together"};
  }
  if (Status good = ZmqAcceptor::check_endpoints(options.listen, !options.curve_secret.empty()); !good) {
    return good;
  }
  if (options.curve_secret.empty()) return {};
  Result<CurveKeyPair> keys = read_curve_secret(options.curve_secret);
  if (!keys) return keys.error();
  Result<std::vector<CurveAllowed>> allowed = read_curve_allow(options.curve_allow);
  if (!allowed) return allowed.error();
  for (const CurveAllowed& entry : *allowed) {
    const bool known = std::any_of(nodes.begin(), nodes.end(), [&](const NodeEntry& node) {
      return node.name == entry.name && node.guid == entry.guid;
    });
    if (!known)
      return Error{
          fmt::format("{}: no --node {}={:x}:LID", options.curve_allow, entry.name, entry.guid.value())};
  }
  out.keys = *keys;
  out.allowed = *allowed;
  return {};
}

/// What `weft status` asks.
class SwitchControl final : public ControlHandler {
 public:
  SwitchControl(const Options& options, Admission& admission) : options_(options), admission_(admission) {}

  NodeInfo info() override {
    NodeInfo out = describe_node(options_, "weft-switch");
    out.state = "listening";
    const std::vector<NodeEntry>& nodes = admission_.nodes();
    for (size_t i = 0; i < nodes.size() && i < kControlPortsMax; ++i) {
      PortInfo port;
      port.number = static_cast<uint16_t>(i + 1);
      port.state = to_string(admission_.engine(i).state());
      port.lid = admission_.engine(i).state() == LinkState::kUp ? nodes[i].lid.value() : kLidNone.value();
      port.peer = nodes[i].name;
      port.carrier = admission_.engine(i).carrier_kind();
      out.ports.push_back(port);
    }
    return out;
  }

 private:
  const Options& options_;
  Admission& admission_;
};

Status run(const Options& options, const SwitchConfig& config, const ZmqAcceptorConfig& zmq,
           std::vector<NodeEntry> nodes) {
  const MonotonicClock clock;
  LoopRunner loop(clock);
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::create(loop, options.parent());
  if (!guard) return guard.error();
  const std::string base = options.file_base();
  std::optional<StatsPage> page;  // outlives the counters on it
  Switch fabric(config);
  Admission admission(fabric, std::move(nodes));
  Result<std::unique_ptr<ShmAcceptor>> local = ShmAcceptor::create(base + ".sock", admission);
  if (!local) return local.error();
  Result<std::unique_ptr<ZmqAcceptor>> remote = ZmqAcceptor::create(zmq, admission);
  if (!remote) return remote.error();
  // Only now: a second switch of this name must not replace the page of the first.
  Result<StatsPage> made = StatsPage::create(base + ".stats");
  if (!made) return made.error();
  page = std::move(*made);
  SwitchControl handler(options, admission);
  Result<std::unique_ptr<ControlServer>> control = ControlServer::open(base + ".ctl", handler);
  if (!control) return control.error();
  fabric.publish(*page, "port");
  page->publish("admission", admission.counters());
  page->publish("zmq", (*remote)->counters());
  page->publish("loop", loop.counters());
  page->publish("control", (*control)->counters());
  if (!options.listen.empty()) loop.add(**remote);
  loop.add(fabric);
  loop.add(**local);
  loop.add(**control);
  loop.add(**guard);
  log(LogLevel::kInfo, "{} ports, listening on {}.sock", config.ports, base);
  loop.run();
  return {};
}

int main_program(int argc, char** argv) {
  CommandLine line(
      "weft-switch", "weft-switch --name NAME --guid HEX --node NAME=GUID:LID... [options]",
      "Forwards cells between the nodes of a fabric. Each node has a port of its own; local nodes join over "
      "the socket DIR/NAME.sock (shared memory).");
  Options options;
  declare(line, options);
  if (std::optional<int> code = line.parse(argc, argv)) return *code;
  if (const Status good = check_node_options("weft-switch", options); !good)
    return line.wrong_use(good.error().text);
  SwitchConfig config;
  std::vector<NodeEntry> nodes;
  if (const Status good = configure(options, config, nodes); !good) return line.wrong_use(good.error().text);
  ZmqAcceptorConfig zmq;
  if (const Status good = configure_zmq(options, nodes, zmq); !good) return line.wrong_use(good.error().text);
  return exit_code_of(run(options, config, zmq, std::move(nodes)));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::main_program(argc, argv);
}
