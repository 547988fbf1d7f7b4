// weft status.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "base/command_line.h"
#include "control/control_client.h"
#include "fabric/carrier/unix_socket.h"
#include "tools/commands/command.h"
#include "tools/fault/fault_control.h"
#include "tools/show/program_list.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

struct NodeStatus {
  RecordedProcess process;
  bool running = false;
  bool answers = false;
  control::NodeInfo info;
  uint64_t qps = 0;  // number of QPs of a program
  std::vector<ProgramQp> shown_qps;
};

/// Present state of a fabric.
struct FabricStatus {
  std::vector<NodeStatus> nodes;     // of the topology
  std::vector<NodeStatus> programs;  // programs that joined a spare port
  GuestNames guests;
  std::vector<std::string> faults;  // in force, as texts
};

/// A process of another PID namespace has no number here, but its control endpoint is a bound socket.
bool runs_elsewhere(const std::string& endpoint) {
  return access(endpoint.c_str(), F_OK) == 0 && !fabric::is_dead_socket(endpoint);
}

std::vector<NodeStatus> ask_all(const StateDir& dir, const RunRecord& record) {
  control::ControlClient client;
  std::vector<NodeStatus> out;
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    NodeStatus status;
    status.process = process;
    const std::string endpoint = dir.file(process.name + ".ctl");
    status.running = is_running(process.pid, process.start_ticks);
    if (!status.running && runs_elsewhere(endpoint)) {
      status.running = true;
      status.process.pid = 0;
    }
    if (status.running) {
      Result<control::ControlReply> reply = client.ask(endpoint, {}, 500ms);
      status.answers = reply.ok();
      if (reply.ok()) status.info = reply.value().info;
    }
    out.push_back(std::move(status));
  }
  return out;
}

using NamesByLid = std::map<uint16_t, std::string>;

NamesByLid names_in(const StateDir& dir) {
  NamesByLid names;
  for (const auto& [name, lid] : load_lids(dir.file("lids"))) names[lid.value()] = name;
  return names;
}

/// Leaves out sessions of guests that have left. A unit keeps such a session, and shows it as lost, until
/// another host takes its place.
void drop_left_guests(const NamesByLid& names, control::NodeInfo& info) {
  std::erase_if(info.sessions, [&names](const control::SessionInfo& session) {
    return (session.state == "lost" || session.state == "idle") && !names.contains(session.peer_lid);
  });
}

/// Programs are not asked, because they may be busy or stopped. Their pages have their names, and the
/// switches know their ports.
FabricStatus look_at_all(const StateDir& dir, const RunRecord& record) {
  FabricStatus out;
  out.nodes = ask_all(dir, record);
  const NamesByLid names = names_in(dir);
  for (NodeStatus& node : out.nodes) drop_left_guests(names, node.info);
  SpareView view;
  for (const NodeStatus& node : out.nodes) add_spare_ports(node.process.name, node.info, view);
  const std::vector<ProgramNode> programs = running_programs(dir);
  out.guests = guest_names(dir, programs);
  for (const ProgramNode& program : programs) {
    NodeStatus status;
    status.process = {program.name, program.program, program.pid, 0, 0};
    status.running = status.answers = true;
    status.qps = program.qps;
    status.shown_qps = program.shown;
    status.info.guid = program.guid;
    status.info.state = "joining";
    if (program.guid != 0) status.info.state = "no link to the switch";
    for (const Guest& guest : view.guests) {
      if (guest.guid != program.guid) continue;
      status.info.lid = guest.lid;
      status.info.ready = true;
      status.info.state = fmt::format("up at {}:{}", guest.node, guest.port);
    }
    for (const Guest& guest : view.guests) {
      const auto& more = program.more_guids;
      if (status.info.ready && std::find(more.begin(), more.end(), guest.guid) != more.end())
        status.info.state += fmt::format(", {}:{}", guest.node, guest.port);
    }
    if (is_stopped(program.pid)) status.info.state += " (stopped by a signal)";
    out.programs.push_back(std::move(status));
  }
  return out;
}

std::vector<std::string> faults_in_force(const std::string& fabric) {
  std::vector<std::string> out;
  Result<StateDir> dir = StateDir::open(fabric);
  if (!dir.ok()) return out;
  FaultControl control(std::move(dir).value(), 500ms);
  if (!control.look().ok()) return out;
  const Result<std::vector<SetFault>> faults = control.list();
  for (const SetFault& one : faults.ok() ? faults.value() : std::vector<SetFault>{})
    out.push_back(control.describe(one));
  return out;
}

/// Empty when no node of the topology has this LID.
std::string name_of(const NamesByLid& names, uint16_t lid) {
  const auto at = names.find(lid);
  return at == names.end() ? std::string() : at->second;
}

/// Name with LID. Switches have no LID, and a node has none before it joins.
std::string with_lid(const std::string& name, uint16_t lid) {
  return lid == 0 ? name : fmt::format("{} (lid {})", name, lid);
}

std::string peer_text(const NamesByLid& names, uint16_t lid) {
  const std::string name = name_of(names, lid);
  return name.empty() ? fmt::format("lid {}", lid) : with_lid(name, lid);
}

std::string state_word(const NodeStatus& node) {
  if (!node.running) return "down";
  if (!node.answers) return "does not answer";
  return node.info.fault.empty() ? node.info.state : fmt::format("{} ({})", node.info.state, node.info.fault);
}

std::string node_json(const NamesByLid& names, const NodeStatus& node) {
  std::string sessions;
  for (const control::SessionInfo& s : node.info.sessions)
    sessions +=
        fmt::format("{}{{\"peer\":{},\"peer_lid\":{},\"state\":{},\"mode\":{},\"encoding\":{},\"mac\":{}}}",
                    sessions.empty() ? "" : ",", json_text(name_of(names, s.peer_lid)), s.peer_lid,
                    json_text(s.state), json_text(s.mode), json_text(s.encoding), json_text(s.mac));
  std::string ports;
  for (const control::PortInfo& p : node.info.ports)
    ports += fmt::format("{}{{\"port\":{},\"state\":{},\"lid\":{},\"peer\":{},\"carrier\":{}}}",
                         ports.empty() ? "" : ",", p.number, json_text(p.state), p.lid, json_text(p.peer),
                         json_text(p.carrier));
  std::string qps;
  for (const ProgramQp& qp : node.shown_qps)
    qps += fmt::format(
        "{}{{\"number\":{},\"service\":{},\"state\":{},\"peer_lid\":{},\"peer_number\":{},\"way\":{}}}",
        qps.empty() ? "" : ",", qp.number, json_text(qp.service), json_text(qp.state), qp.peer_lid,
        qp.peer_number, json_text(qp.way));
  return fmt::format(
      "{{\"name\":{},\"program\":{},\"pid\":{},\"running\":{},\"ready\":{},\"state\":{},\"lid\":{},"
      "\"guid\":\"{:016x}\",\"restarts\":{},\"sessions\":[{}],\"ports\":[{}],\"qps\":{},\"queue_pairs\":[{}]}"
      "}",
      json_text(node.process.name), json_text(node.process.program),
      node.running ? std::to_string(node.process.pid) : "null", node.running, node.info.ready,
      json_text(state_word(node)), node.info.lid, node.info.guid, node.process.restarts, sessions, ports,
      node.qps, qps);
}

std::string status_json(const StateDir& dir, const RunRecord& record, const FabricStatus& status, bool up) {
  const NamesByLid names = names_in(dir);
  std::string list;
  for (const auto* nodes : {&status.nodes, &status.programs})
    for (const NodeStatus& node : *nodes) list += (list.empty() ? "" : ",") + node_json(names, node);
  std::string faults;
  for (const std::string& fault : status.faults) faults += (faults.empty() ? "" : ",") + json_text(fault);
  return fmt::format(
      "{{\"fabric\":{},\"running\":{},\"launcher\":{},\"topology\":{},\"state_dir\":{},\"nodes\":[{}],"
      "\"faults\":[{}]}}",
      json_text(dir.fabric()), up, up ? record.launcher : 0, json_text(record.topology),
      json_text(dir.path()), list, faults);
}

/// If more programs than this run, each gets one line.
constexpr size_t kProgramsInFull = 20;

/// `in_full`: lists programs on spare ports too.
void print_ports(const NodeStatus& node, const GuestNames& guests, bool in_full) {
  size_t spare = 0;
  size_t taken = 0;
  for (const control::PortInfo& p : node.info.ports) {
    if (p.peer == "spare") {
      ++spare;
      continue;
    }
    const std::optional<uint64_t> guid = guest_guid(p.peer);
    if (guid && !in_full) {
      ++taken;
      continue;
    }
    const std::string peer = guid && guests.contains(*guid) ? guests.at(*guid) : p.peer;
    print_line(fmt::format("{:<12}   port {}: {}{}{}", "", p.number, p.state,
                           peer.empty() ? "" : ", " + with_lid(peer, p.lid),
                           p.carrier.empty() ? "" : " over " + p.carrier));
  }
  if (taken != 0) print_line(fmt::format("{:<12}   spare ports: {} in use", "", taken));
  if (spare != 0) print_line(fmt::format("{:<12}   spare ports: {} free", "", spare));
}

void print_qps(const NodeStatus& node) {
  for (const ProgramQp& qp : node.shown_qps) {
    const std::string peer = qp.peer_lid == 0
                                 ? std::string()
                                 : fmt::format(", with lid {} qp 0x{:06x}", qp.peer_lid, qp.peer_number);
    print_line(fmt::format("{:<12}   qp 0x{:06x}: {}, {}{}{}", "", qp.number, qp.service, qp.state, peer,
                           qp.way == "window" ? " through a window"
                           : qp.way == "both" ? " through windows and the switch"
                                              : ""));
  }
  if (node.qps > node.shown_qps.size())
    print_line(fmt::format("{:<12}   {} further QPs", "", node.qps - node.shown_qps.size()));
}

/// "3 QPs: 2 RTS, 1 INIT". States are counted for the QPs on the page only, which may be fewer.
std::string qps_in_short(const NodeStatus& node) {
  std::map<std::string, size_t> states;
  for (const ProgramQp& qp : node.shown_qps) ++states[qp.state];
  std::string out = fmt::format(", {} {}", node.qps, node.qps == 1 ? "QP" : "QPs");
  for (const auto& [state, count] : states)
    out += fmt::format("{} {} {}", state == states.begin()->first ? ":" : ",", count, state);
  return out;
}

/// `in_full`: a line for each QP of a program, and for each program of a switch.
void print_node(const NamesByLid& names, const GuestNames& guests, const NodeStatus& node, bool in_full) {
  const std::string lid = node.info.lid == 0 ? "-" : std::to_string(node.info.lid);
  const std::string pid = node.running && node.process.pid != 0 ? std::to_string(node.process.pid) : "-";
  const bool in_short = !in_full && node.qps != 0;
  print_line(fmt::format("{:<12} {:<12} {:>8} {:>5} {:>8}  {}{}", node.process.name, node.process.program,
                         pid, lid, node.process.restarts, state_word(node),
                         in_short ? qps_in_short(node) : ""));
  for (const control::SessionInfo& s : node.info.sessions)
    print_line(fmt::format("{:<12}   session with {}: {}, {}, {}, {}", "", peer_text(names, s.peer_lid),
                           s.state, s.mode, s.encoding, s.mac));
  print_ports(node, guests, in_full);
  if (in_full) print_qps(node);
}

void print_status(const StateDir& dir, const RunRecord& record, const FabricStatus& status, bool all) {
  const bool in_full = all || status.programs.size() <= kProgramsInFull;
  const NamesByLid names = names_in(dir);
  const std::string topology =
      record.topology.starts_with('(') ? record.topology : "(" + record.topology + ")";
  print_line(fmt::format("fabric {} {}, launcher pid {}", dir.fabric(), topology, record.launcher));
  print_line(fmt::format("{:<12} {:<12} {:>8} {:>5} {:>8}  {}", "node", "program", "pid", "lid", "restarts",
                         "state"));
  for (const auto* nodes : {&status.nodes, &status.programs})
    for (const NodeStatus& node : *nodes) print_node(names, status.guests, node, in_full);
  for (const std::string& fault : status.faults) print_line(fault);
}

}  // namespace

int command_status(const Arguments& arguments) {
  std::string fabric;
  bool json = false;
  bool all = false;
  Arguments none;
  CommandLine line(
      "weft status", "weft status [options]",
      "Lists the processes of a running fabric with their sessions and ports, and the programs that use it "
      "with their QPs. Exit\ncode 0 when all processes are ready, else 1. A process that does not run has "
      "the\npid -, with --json null. With more than 20 programs each has one line.");
  line.text("fabric,f", "NAME", fabric, "which fabric, when several run");
  line.flag("all", all, "every port and QP, also with many programs");
  line.flag("json", json, "one JSON object");
  line.words("", none, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = fabric.empty() ? chosen_fabric(fabric) : StateDir::open(fabric);
  if (!dir.ok()) return failure("status", dir.error().text);
  const RunRecord record = dir.value().load();
  const bool up = dir.value().locked();
  FabricStatus status = look_at_all(dir.value(), record);
  if (up) status.faults = faults_in_force(dir.value().fabric());
  const std::vector<NodeStatus>& nodes = status.nodes;
  if (json) {
    print_line(status_json(dir.value(), record, status, up));
  } else if (up) {
    print_status(dir.value(), record, status, all);
  } else {
    return failure("status", StateDir::not_running(fabric));
  }
  const bool good = up && record.ready &&
                    std::all_of(nodes.begin(), nodes.end(), [](const NodeStatus& n) { return n.info.ready; });
  return good ? kExitDone : kExitFailed;
}

}  // namespace weft::tools
