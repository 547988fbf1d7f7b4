// weft-switch: a switch as a process. Builds the core, the admission by node table, the acceptors for those
// who join and the connectors to the neighbours it joins itself; the core does the rest.
#include <fmt/format.h>

#include <optional>

#include "base/log.h"
#include "base/loop_runner.h"
#include "base/privileges.h"
#include "base/process_guard.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "control/control_server.h"
#include "fabric/switch/shm_acceptor.h"
#include "node/switch_options.h"

namespace weft::fabric {
namespace {

/// What `weft status` asks.
class SwitchControl final : public control::ControlHandler {
 public:
  SwitchControl(const node::SwitchOptions& options, Admission& admission)
      : options_(options), admission_(admission) {}

  control::NodeInfo info() override {
    control::NodeInfo out = node::describe_node(options_, "weft-switch");
    out.state = "listening";
    const std::vector<NodeEntry>& nodes = admission_.nodes();
    for (size_t i = 0; i < nodes.size() && i < control::kControlPortsMax; ++i) {
      control::PortInfo port;
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
  const node::SwitchOptions& options_;
  Admission& admission_;
};

/// Makes this switch connect to its neighbours; `connectors` outlives the engines.
Status join_neighbours(const std::vector<node::SwitchJoin>& joins, RandomSource& random, Admission& admission,
                       std::vector<std::unique_ptr<LinkSupervisor>>& connectors) {
  for (const node::SwitchJoin& join : joins) {
    Result<std::unique_ptr<LinkSupervisor>> connector = make_connector(join.endpoint, random);
    if (!connector) return connector.error();
    admission.engine(join.node).set_supervisor(connector->get());
    connectors.push_back(std::move(*connector));
  }
  return {};
}

Status run(const node::SwitchOptions& options, node::SwitchPlan plan) {
  const MonotonicClock clock;
  SystemRandom random;
  LoopRunner loop(clock);
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::create(loop, options.parent());
  if (!guard) return guard.error();
  if (Status dropped = drop_privileges(); !dropped) return dropped;
  const std::string base = options.file_base();
  std::optional<StatsPage> page;  // outlives the counters on it
  std::vector<std::unique_ptr<LinkSupervisor>> connectors;
  Switch fabric(plan.config);
  Admission admission(fabric, std::move(plan.nodes));
  if (Status joined = join_neighbours(plan.joins, random, admission, connectors); !joined) return joined;
  Result<std::unique_ptr<ShmAcceptor>> local = ShmAcceptor::create(base + ".sock", admission);
  if (!local) return local.error();
  Result<std::unique_ptr<ZmqAcceptor>> remote = ZmqAcceptor::create(plan.zmq, admission);
  if (!remote) return remote.error();
  // Only now: a second switch of this name must not replace the page of the first.
  Result<StatsPage> made = StatsPage::create(base + ".stats");
  if (!made) return made.error();
  page = std::move(*made);
  SwitchControl handler(options, admission);
  Result<std::unique_ptr<control::ControlServer>> control =
      control::ControlServer::open(base + ".ctl", handler);
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
  log(LogLevel::kInfo, "{} ports, listening on {}.sock", plan.config.ports, base);
  if (Status bound = node::bind_loop(options); !bound) return bound;
  loop.run();
  return {};
}

int main_program(int argc, char** argv) {
  CommandLine line(
      "weft-switch", "weft-switch --name NAME --guid HEX --node NAME=GUID:LID... [options]",
      "Forwards cells between the nodes of a fabric. Each node has a port of its own; local nodes join over "
      "the socket DIR/NAME.sock (shared memory).");
  node::SwitchOptions options;
  node::declare_switch_options(line, options);
  if (std::optional<int> code = line.parse(argc, argv)) return *code;
  if (const Status good = node::check_node_options("weft-switch", options); !good)
    return line.wrong_use(good.error().text);
  Result<node::SwitchPlan> plan = node::plan_switch(options);
  if (!plan) return line.wrong_use(plan.error().text);
  return node::exit_code_of(run(options, std::move(*plan)));
}

}  // namespace
}  // namespace weft::fabric

int main(int argc, char** argv) {
  return weft::fabric::main_program(argc, argv);
}
