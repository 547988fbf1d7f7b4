#include "tools/node_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/words.h"

namespace weft::tools {
namespace {

std::vector<const Endnode*> endnodes_in_order(const Topology& topology) {
  std::vector<const Endnode*> all;
  for (const HostNode& node : topology.hosts) all.push_back(&node);
  for (const UnitNode& node : topology.units) all.push_back(&node);
  std::sort(all.begin(), all.end(), [](const Endnode* a, const Endnode* b) { return a->order < b->order; });
  return all;
}

std::string secret_file(const Topology& topology, const std::string& node) {
  return topology.curve_dir + "/" + node + ".secret";
}
std::string public_file(const Topology& topology, const std::string& node) {
  return topology.curve_dir + "/" + node + ".public";
}

/// Where a switch is found by who joins it, as --switch and --join want it.
std::string join_endpoint(const Topology& topology, uint32_t switch_index, LinkKind kind,
                          const std::string& endpoint, const std::string& state_dir) {
  const std::string& name = topology.switches[switch_index].name;
  if (kind != LinkKind::kZmq) return fmt::format("shm:{}/{}.sock", state_dir, name);
  return endpoint.empty() ? fmt::format("ipc://{}/{}.zmq", state_dir, name) : endpoint;
}

/// All ZeroMQ endpoints of a switch. One endpoint beyond this machine puts keys on every one of them, because
/// ZeroMQ's authentication holds for the whole process.
std::set<std::string> listen_endpoints(const Topology& topology, uint32_t index,
                                       const std::string& state_dir) {
  const SwitchNode& node = topology.switches[index];
  std::set<std::string> listen(node.listen.begin(), node.listen.end());
  const auto add = [&](LinkKind kind, const std::string& endpoint) {
    if (kind == LinkKind::kZmq) listen.insert(join_endpoint(topology, index, kind, endpoint, state_dir));
  };
  for (const Endnode* endnode : endnodes_in_order(topology))
    if (endnode->switch_index == index) add(endnode->link, endnode->endpoint);
  for (const SwitchLink& link : topology.switch_links)
    if (link.to == index) add(link.link, link.endpoint);
  return listen;
}

/// Keys that are there are used wherever somebody else could connect: on loopback, too, other users can.
bool has_curve(const Topology& topology, uint32_t switch_index) {
  const std::set<std::string> listen = listen_endpoints(topology, switch_index, {});
  return !topology.curve_dir.empty() &&
         std::any_of(listen.begin(), listen.end(), [](const auto& e) { return e.starts_with("tcp://"); });
}

/// Options that all three programs share.
template <class Node>
void add_common(NodeCommand& command, const Topology& topology, const Node& node,
                const std::string& state_dir, const std::string& log_level) {
  auto& out = command.arguments;
  out.insert(out.end(), {"--name", command.name, "--dir", state_dir, "--guid",
                         fmt::format("{:016x}", node.guid.value()), "--log-level", log_level});
  const LinkSettings& links = topology.links;
  const auto number = [&out](const char* option, uint32_t value) {
    if (value != 0) out.insert(out.end(), {option, std::to_string(value)});
  };
  number("--cell-payload", links.cell_payload);
  number("--flit-payload", links.flit_payload);
  number("--lanes", links.lanes);
  number("--credits", links.credits);
  if (node.core != kAnyCore) out.insert(out.end(), {"--core", std::to_string(node.core)});
}

/// The links of a switch to its neighbours, and which LIDs lie behind each.
void add_neighbours(NodeCommand& command, const Topology& topology, uint32_t index,
                    const std::map<std::string, Lid>& lids, const std::string& state_dir) {
  const std::vector<uint32_t> next = next_switches(topology, index);
  for (const SwitchLink& link : topology.switch_links) {
    if (link.from != index && link.to != index) continue;
    const uint32_t there = link.from == index ? link.to : link.from;
    const SwitchNode& neighbour = topology.switches[there];
    std::vector<uint16_t> beyond;
    for (const Endnode* endnode : endnodes_in_order(topology))
      if (next[endnode->switch_index] == there) beyond.push_back(lids.at(endnode->name).value());
    command.peers.push_back(neighbour.name);
    auto& out = command.arguments;
    out.insert(out.end(), {"--neighbour", fmt::format("{}={:016x}:{}", neighbour.name, neighbour.guid.value(),
                                                      fmt::join(beyond, ","))});
    if (link.to == index) continue;
    out.insert(out.end(),
               {"--join", fmt::format("{}={}", neighbour.name,
                                      join_endpoint(topology, there, link.link, link.endpoint, state_dir))});
    if (link.link == LinkKind::kZmq && has_curve(topology, there))
      out.insert(out.end(),
                 {"--neighbour-key", neighbour.name + "=" + public_file(topology, neighbour.name)});
  }
}

/// True when the switch itself joins one that wants keys.
bool joins_with_curve(const Topology& topology, uint32_t index) {
  return std::any_of(topology.switch_links.begin(), topology.switch_links.end(), [&](const SwitchLink& link) {
    return link.from == index && link.link == LinkKind::kZmq && has_curve(topology, link.to);
  });
}

NodeCommand switch_command(const Topology& topology, uint32_t index, const std::map<std::string, Lid>& lids,
                           const std::string& state_dir, const std::string& log_level) {
  const SwitchNode& node = topology.switches[index];
  NodeCommand command{node.name, NodeRole::kSwitch, "weft-switch", {}, {}, node.netns, kLidNone, {}};
  add_common(command, topology, node, state_dir, log_level);
  if (topology.links.cut_through) command.arguments.emplace_back("--cut-through");
  for (const Endnode* endnode : endnodes_in_order(topology)) {
    if (endnode->switch_index != index) continue;
    command.peers.push_back(endnode->name);
    command.arguments.insert(command.arguments.end(),
                             {"--node", fmt::format("{}={:016x}:{}", endnode->name, endnode->guid.value(),
                                                    lids.at(endnode->name).value())});
  }
  add_neighbours(command, topology, index, lids, state_dir);
  const size_t ports = node.ports != 0 ? node.ports : std::max<size_t>(command.peers.size(), 1);
  command.arguments.insert(command.arguments.end(), {"--ports", std::to_string(ports)});
  for (const std::string& endpoint : listen_endpoints(topology, index, state_dir))
    command.arguments.insert(command.arguments.end(), {"--listen", endpoint});
  if (has_curve(topology, index) || joins_with_curve(topology, index))
    command.arguments.insert(command.arguments.end(), {"--curve-secret", secret_file(topology, node.name)});
  if (has_curve(topology, index))
    command.arguments.insert(command.arguments.end(),
                             {"--curve-allow", state_dir + "/" + node.name + ".allow"});
  return command;
}

NodeCommand endnode_command(const Topology& topology, const Endnode& node, NodeRole role,
                            const std::map<std::string, Lid>& lids, const std::string& state_dir,
                            const std::string& log_level) {
  const Lid lid = lids.at(node.name);
  NodeCommand command{node.name, role, role == NodeRole::kHost ? "weft-host" : "weft-iou", {}, {}, node.netns,
                      lid,       {}};
  add_common(command, topology, node, state_dir, log_level);
  auto& out = command.arguments;
  const std::string endpoint =
      join_endpoint(topology, node.switch_index, node.link, node.endpoint, state_dir);
  out.insert(out.end(), {"--lid", std::to_string(lid.value()), "--switch", endpoint});
  if (node.link == LinkKind::kZmq && has_curve(topology, node.switch_index))
    out.insert(out.end(), {"--curve-secret", secret_file(topology, node.name), "--curve-server",
                           public_file(topology, topology.switches[node.switch_index].name)});
  for (const PoolSetting& pool : node.pools)
    out.insert(out.end(), {"--pool", fmt::format("{}x{}", pool.element_bytes, pool.elements)});
  return command;
}

/// Interfaces of a host, one option of each kind per unit and in the same order. A TAP already has its
/// address and MTU; weft-host takes one MTU for all others.
void add_host_ports(NodeCommand& command, const HostNode& node, const Topology& topology,
                    const std::map<std::string, Lid>& lids) {
  auto& out = command.arguments;
  const auto is_tap = [](const HostPort& port) { return port.os == OsKind::kTap; };
  const bool any_tap = std::any_of(node.ports.begin(), node.ports.end(), is_tap);
  const bool all_taps = std::all_of(node.ports.begin(), node.ports.end(), is_tap);
  uint32_t mtu = 0;
  for (const HostPort& port : node.ports) {
    out.insert(out.end(),
               {"--unit", std::to_string(lids.at(topology.units[port.unit_index].name).value()), "--os"});
    switch (port.os) {
      case OsKind::kTap:
        out.push_back("tap:" + port.interface.name);
        break;
      case OsKind::kGen:
        out.emplace_back("gen:");
        break;
      case OsKind::kUnix:
        out.push_back("unix:" + port.path);
        break;
    }
    if (!all_taps) out.insert(out.end(), {"--mac", weft::to_string(port.interface.mac)});
    const auto kind = is_tap(port) ? HandedDescriptor::Kind::kTap : HandedDescriptor::Kind::kNone;
    if (any_tap) command.descriptors.push_back({kind, "--os-fd", port.interface});
    mtu = std::max(mtu, port.interface.mtu);
  }
  if (!any_tap && mtu != 0) out.insert(out.end(), {"--mtu", std::to_string(mtu)});
}

void add_nic(NodeCommand& command, const UnitNode& node) {
  auto& out = command.arguments;
  out.emplace_back("--nic");
  switch (node.nic) {
    case NicKind::kEcho:
      out.emplace_back("echo");
      break;
    case NicKind::kSlirp:
      out.emplace_back("slirp");
      break;
    case NicKind::kTap:
      out.push_back("tap:" + node.interface.name);
      command.descriptors.push_back({HandedDescriptor::Kind::kTap, "--nic-fd", node.interface});
      break;
    case NicKind::kPacket:
      out.push_back("packet:" + node.interface.name);
      command.descriptors.push_back({HandedDescriptor::Kind::kPacket, "--nic-fd", node.interface});
      break;
    case NicKind::kPcap:
      out.push_back("pcap:" + node.pcap_in + (node.pcap_out.empty() ? "" : "," + node.pcap_out));
      break;
  }
  if (node.bridge) out.emplace_back("--bridge");
  if (node.promiscuous_allowed) out.emplace_back("--promiscuous-allowed");
}

}  // namespace

std::string_view to_string(NodeRole role) noexcept {
  switch (role) {
    case NodeRole::kSwitch:
      return "switch";
    case NodeRole::kUnit:
      return "unit";
    case NodeRole::kHost:
      return "host";
  }
  return "unknown";
}

std::map<std::string, Lid> assign_lids(const Topology& topology, const std::map<std::string, Lid>& earlier) {
  std::map<std::string, Lid> lids;
  std::set<Lid> taken;
  const std::vector<const Endnode*> nodes = endnodes_in_order(topology);
  for (const Endnode* node : nodes) {
    const auto kept = earlier.find(node->name);
    if (kept == earlier.end() || kept->second == kLidNone || kept->second.value() > kLidMax) continue;
    if (taken.insert(kept->second).second) lids[node->name] = kept->second;
  }
  uint16_t next = 1;
  for (const Endnode* node : nodes) {
    if (lids.contains(node->name)) continue;
    while (taken.contains(Lid(next))) ++next;
    lids[node->name] = Lid(next++);
  }
  return lids;
}

Status check_curve_keys(const Topology& topology) {
  std::vector<std::string> missing;
  const auto want = [&](const std::string& node) {
    if (std::find(missing.begin(), missing.end(), node) != missing.end()) return;
    if (!std::ifstream(public_file(topology, node)) || !std::ifstream(secret_file(topology, node)))
      missing.push_back(node);
  };
  for (uint32_t i = 0; i < topology.switches.size(); ++i) {
    if (!has_curve(topology, i)) continue;
    want(topology.switches[i].name);
    for (const Endnode* node : endnodes_in_order(topology))
      if (node->switch_index == i && node->link == LinkKind::kZmq) want(node->name);
    for (const SwitchLink& link : topology.switch_links)
      if (link.to == i && link.link == LinkKind::kZmq) want(topology.switches[link.from].name);
  }
  if (missing.empty()) return {};
  return Error{fmt::format("no keys of {} in {}; make them with weft keygen --dir {} {}", joined(missing),
                           topology.curve_dir, topology.curve_dir, fmt::join(missing, " "))};
}

std::map<std::string, Lid> load_lids(const std::string& path) {
  std::map<std::string, Lid> lids;
  std::ifstream in(path);
  std::string guid;
  unsigned lid = 0;
  for (std::string name; in >> guid >> lid >> name;)
    if (lid >= 1 && lid <= kLidMax) lids[name] = Lid(static_cast<uint16_t>(lid));
  return lids;
}

Result<std::string> curve_allow_text(const Topology& topology, uint32_t switch_index) {
  std::string text;
  if (!has_curve(topology, switch_index)) return text;
  const auto add = [&](const std::string& name, Guid guid) -> Status {
    const std::string path = public_file(topology, name);
    std::ifstream in(path);
    std::string key;
    if (!(in >> key) || key.size() != 40)
      return Error{fmt::format("{} holds no key; make it anew with weft keygen --force --dir {} {}", path,
                               topology.curve_dir, name)};
    text += fmt::format("{} {:016x} {}\n", name, guid.value(), key);
    return {};
  };
  for (const Endnode* node : endnodes_in_order(topology)) {
    if (node->switch_index != switch_index || node->link != LinkKind::kZmq) continue;
    if (Status added = add(node->name, node->guid); !added.ok()) return added.error();
  }
  for (const SwitchLink& link : topology.switch_links) {
    if (link.to != switch_index || link.link != LinkKind::kZmq) continue;
    const SwitchNode& from = topology.switches[link.from];
    if (Status added = add(from.name, from.guid); !added.ok()) return added.error();
  }
  return text;
}

std::vector<NodeCommand> node_commands(const Topology& topology, const std::map<std::string, Lid>& lids,
                                       const std::string& state_dir, const std::string& log_level) {
  std::vector<NodeCommand> commands;
  for (uint32_t i = 0; i < topology.switches.size(); ++i)
    commands.push_back(switch_command(topology, i, lids, state_dir, log_level));
  for (const UnitNode& node : topology.units) {
    commands.push_back(endnode_command(topology, node, NodeRole::kUnit, lids, state_dir, log_level));
    add_nic(commands.back(), node);
  }
  for (const HostNode& node : topology.hosts) {
    commands.push_back(endnode_command(topology, node, NodeRole::kHost, lids, state_dir, log_level));
    commands.back().arguments.insert(commands.back().arguments.end(),
                                     {"--mode", node.mode, "--encoding", node.encoding});
    add_host_ports(commands.back(), node, topology, lids);
  }
  return commands;
}

}  // namespace weft::tools
