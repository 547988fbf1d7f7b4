// weft-switch: a switch as a process. Builds the core, the admission with its node table, the acceptors for
// endnodes that join, and the connectors to neighbouring switches that this switch joins.
#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/net/capture_set.h"
#include "control/control_server.h"
#include "fabric/switch/lease_file.h"
#include "fabric/switch/shm_acceptor.h"
#include "node/process.h"
#include "node/spec_codec.h"
#include "node/switch_plan.h"

namespace weft::fabric {
namespace {

constexpr const char* kProgram = "weft-switch";

/// Answers requests to the control endpoint: `weft status`, captures and faults.
class SwitchControl final : public control::ControlHandler {
 public:
  SwitchControl(const node::SwitchSpec& spec, Admission& admission, Switch& fabric, const Clock& clock)
      : spec_(spec),
        admission_(admission),
        fabric_(fabric),
        clock_(clock),
        captures_(fabric.taps().points()) {}

  control::NodeInfo info() override {
    control::NodeInfo out = node::describe_node(spec_, kProgram);
    out.state = "listening";
    const std::vector<NodeEntry>& nodes = admission_.nodes();
    for (size_t i = 0; i < admission_.links() && i < control::kControlPortsMax; ++i) {
      LinkEngine& engine = admission_.engine(i);
      const bool up = engine.state() == LinkState::kUp;
      control::PortInfo port;
      port.number = static_cast<uint16_t>(i + 1);
      port.state = to_string(engine.state());
      port.lid = up ? engine.params().lid.value() : kLidNone.value();
      port.carrier = engine.carrier_kind();
      if (i < nodes.size()) {
        port.peer = nodes[i].name;
        const bool neighbour = i >= spec_.nodes.size();
        if (neighbour && !up && out.ready) {
          out.ready = false;
          out.fault = "no link to " + port.peer;
        }
      } else {
        port.peer = up ? fmt::format("guest {:016x}", engine.params().peer_guid.value()) : "spare";
      }
      out.ports.push_back(port);
    }
    return out;
  }

  /// A switch captures cells, and `interface` is the number of a port.
  Status capture_start(const control::CaptureSpec& spec) override {
    return captures_.start({spec.path, spec.interface, spec.frame_bytes_max, spec.ring_bytes,
                            static_cast<pid_t>(spec.reader_pid)});
  }
  Status capture_stop(const std::string& path) override {
    captures_.stop(path);
    return {};
  }

  Result<std::vector<control::FaultInfo>> fault_add(const FaultRule& wish) override {
    FaultRule rule = wish;
    if (rule.guid != Guid{}) {
      rule.port = fabric_.port_of(rule.guid);
    } else if (rule.port > fabric_.ports()) {
      return Error{fmt::format("the switch has ports 1..{} and 0 for all of them, not {}", fabric_.ports(),
                               rule.port)};
    }
    Result<uint32_t> id = fabric_.faults().add(rule, clock_.now());
    if (!id) return id.error();
    log(LogLevel::kInfo, "fault {}: {} at port {}, seed {}", *id, to_string(rule.kind), rule.port, rule.seed);
    return fault_list();
  }
  Result<std::vector<control::FaultInfo>> fault_clear(uint32_t id) override {
    if (id == 0) {
      fabric_.faults().clear();
    } else if (!fabric_.faults().remove(id)) {
      return Error{fmt::format("no fault of this switch has the number {}", id)};
    }
    log(LogLevel::kInfo, "fault {} cleared", id == 0 ? "of every number" : std::to_string(id));
    return fault_list();
  }
  Result<std::vector<control::FaultInfo>> fault_list() override {
    std::vector<control::FaultInfo> out;
    for (const LiveFault& fault : fabric_.faults().rules()) {
      const Duration left = fault.rule.lasts - (clock_.now() - fault.began);
      out.push_back({fault.id, fault.rule, fault.matched, fault.struck, std::max(left, Duration{})});
    }
    return out;
  }

 private:
  const node::SwitchSpec& spec_;
  Admission& admission_;
  Switch& fabric_;
  const Clock& clock_;
  CaptureSet captures_;
};

/// Connects this switch to its neighbours. `connectors` must outlive the engines.
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

Status run(const node::SwitchSpec& spec, node::SwitchPlan plan) {
  Result<std::unique_ptr<node::Process>> made = node::Process::create(spec, kProgram);
  if (!made) return made.error();
  node::Process& process = **made;
  if (Status dropped = process.drop_rights(); !dropped) return dropped;
  std::vector<std::unique_ptr<LinkSupervisor>> connectors;
  Switch fabric(plan.config);
  std::unique_ptr<LeaseStore> leases;
  if (plan.spare.ports != 0) {
    Result<std::unique_ptr<LeaseStore>> opened = open_lease_file(spec.file_base() + ".leases", plan.spare);
    if (!opened) return opened.error();
    leases = std::move(*opened);
  }
  Admission admission(fabric, std::move(plan.nodes), plan.spare, process.random(), {}, leases.get());
  Status joined = join_neighbours(plan.joins, process.random(), admission, connectors);
  if (!joined) return joined;
  Result<std::unique_ptr<ShmAcceptor>> local = ShmAcceptor::create(spec.file_base() + ".sock", admission);
  if (!local) return local.error();
  Result<std::unique_ptr<ZmqAcceptor>> remote = ZmqAcceptor::create(plan.zmq, admission);
  if (!remote) return remote.error();
  // Only now: a second switch with this name must not replace the page of the first one.
  if (Status opened = process.open_page(kStatsEntriesDefault + fabric.stats_entries()); !opened)
    return opened;
  fabric.publish(process.page(), "port");
  process.page().publish("admission", admission.counters());
  process.page().publish("zmq", (*remote)->counters());
  SwitchControl handler(spec, admission, fabric, process.clock());
  log(LogLevel::kInfo, "{} ports, listening on {}.sock", plan.config.ports, spec.file_base());
  // Acceptors come first, so that a link that they bring up is served in the same turn.
  if (spec.listen.empty()) return process.run(handler, {local->get(), &fabric});
  return process.run(handler, {remote->get(), local->get(), &fabric});
}

int main_program(const node::SwitchSpec& spec) {
  Result<node::SwitchPlan> plan = node::plan_switch(spec);
  if (!plan) return node::wrong_use(kProgram, plan.error());
  return node::exit_code_of(run(spec, std::move(*plan)));
}

}  // namespace
}  // namespace weft::fabric

int main(int argc, char** argv) {
  return weft::node::run_program<weft::node::SwitchSpec>(argc, argv, weft::fabric::main_program);
}
