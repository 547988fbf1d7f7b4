#include "tools/topology/node_commands.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/private_files.h"
#include "base/words.h"
#include "node/spec_values.h"

namespace weft::tools {
namespace {

/// Hosts, units and their further ports, in file order.
std::vector<const Endnode*> endnodes_in_order(const Topology& topology) {
  std::vector<const Endnode*> all;
  const auto add = [&all](const LinkedNode& node) {
    all.push_back(&node);
    for (const Endnode& link : node.further_links) all.push_back(&link);
  };
  for (const HostNode& node : topology.hosts) add(node);
  for (const UnitNode& node : topology.units) add(node);
  std::sort(all.begin(), all.end(), [](const Endnode* a, const Endnode* b) { return a->order < b->order; });
  return all;
}

std::string secret_file(const Topology& topology, const std::string& node) {
  return topology.curve_dir + "/" + node + ".secret";
}
std::string public_file(const Topology& topology, const std::string& node) {
  return topology.curve_dir + "/" + node + ".public";
}

/// The endpoint at which a switch is joined, in the form of --switch and --join.
std::string join_endpoint(const Topology& topology, uint32_t switch_index, LinkKind kind,
                          const std::string& endpoint, const std::string& state_dir) {
  const std::string& name = topology.switches[switch_index].name;
  if (kind != LinkKind::kZmq) return fmt::format("shm:{}/{}.sock", state_dir, name);
  return endpoint.empty() ? fmt::format("ipc://{}/{}.zmq", state_dir, name) : endpoint;
}

/// All ZeroMQ endpoints of a switch. If one of them can be reached from other machines, all need keys,
/// because ZeroMQ's authentication applies to the whole process.
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

}  // namespace

bool has_curve(const Topology& topology, uint32_t switch_index) {
  const std::set<std::string> listen = listen_endpoints(topology, switch_index, {});
  return !topology.curve_dir.empty() &&
         std::any_of(listen.begin(), listen.end(), [](const auto& e) { return e.starts_with("tcp://"); });
}

namespace {

/// The settings that all three programs have.
template <class Spec, class Node>
Spec common_spec(const Topology& topology, const Node& node, const std::string& state_dir,
                 LogLevel log_level) {
  Spec spec;
  spec.name = node.name;
  spec.dir = state_dir;
  spec.guid = node.guid;
  spec.log_level = log_level;
  spec.core = node.core;
  spec.links = topology.links;
  return spec;
}

struct LidRange {
  uint32_t first = 0;
  uint32_t count = 0;
};

/// Ranges of LIDs for the spare ports of each switch, assigned downwards from the highest LID, above those of
/// all nodes. All of kSpareLidsTogetherMax LIDs are used, shared in proportion to the switches' needs: with
/// more LIDs, more short-lived programs can join per minute.
std::vector<LidRange> spare_lid_ranges(const Topology& topology) {
  uint64_t needed = 0;
  for (const SwitchNode& node : topology.switches) needed += fabric::spare_lids(node.spare_ports);
  std::vector<LidRange> out;
  uint32_t end = node::kSpareLidMax + 1U;
  for (const SwitchNode& node : topology.switches) {
    const uint64_t own = fabric::spare_lids(node.spare_ports);
    const auto count = static_cast<uint32_t>(own == 0 ? 0 : own * node::kSpareLidsTogetherMax / needed);
    out.push_back({end -= count, count});
  }
  return out;
}

/// The links of a switch to its neighbours, with the LIDs beyond each.
std::vector<node::NeighbourSpec> neighbours_of(const Topology& topology, uint32_t index,
                                               const std::map<std::string, Lid>& lids,
                                               const std::string& state_dir) {
  std::vector<node::NeighbourSpec> out;
  const std::vector<uint32_t> next = next_switches(topology, index);
  const std::vector<LidRange> spare = spare_lid_ranges(topology);
  for (const SwitchLink& link : topology.switch_links) {
    if (link.from != index && link.to != index) continue;
    const uint32_t there = link.from == index ? link.to : link.from;
    const SwitchNode& other = topology.switches[there];
    node::NeighbourSpec& neighbour = out.emplace_back();
    neighbour.name = other.name;
    neighbour.guid = other.guid;
    for (const Endnode* endnode : endnodes_in_order(topology))
      if (next[endnode->switch_index] == there) neighbour.beyond.push_back(lids.at(endnode->name));
    for (uint32_t i = 0; i < next.size(); ++i)
      for (uint32_t lid = 0; next[i] == there && lid < spare[i].count; ++lid)
        neighbour.beyond.push_back(Lid(static_cast<uint16_t>(spare[i].first + lid)));
    if (link.to == index) continue;
    neighbour.endpoint = join_endpoint(topology, there, link.link, link.endpoint, state_dir);
    if (link.link == LinkKind::kZmq && has_curve(topology, there))
      neighbour.key = public_file(topology, other.name);
  }
  return out;
}

/// True when the switch joins another switch that needs keys.
bool joins_with_curve(const Topology& topology, uint32_t index) {
  return std::any_of(topology.switch_links.begin(), topology.switch_links.end(), [&](const SwitchLink& link) {
    return link.from == index && link.link == LinkKind::kZmq && has_curve(topology, link.to);
  });
}

NodeCommand switch_command(const Topology& topology, uint32_t index, const std::map<std::string, Lid>& lids,
                           const std::string& state_dir, LogLevel log_level) {
  const SwitchNode& node = topology.switches[index];
  NodeCommand command{node.name, NodeRole::kSwitch, {}, {}, node.netns, {}};
  auto spec = common_spec<node::SwitchSpec>(topology, node, state_dir, log_level);
  spec.cut_through = topology.cut_through;
  spec.lane_order = topology.lane_order;
  for (const Endnode* endnode : endnodes_in_order(topology)) {
    if (endnode->switch_index != index) continue;
    command.peers.push_back(endnode->name);
    spec.nodes.push_back({endnode->name, endnode->guid, lids.at(endnode->name)});
  }
  spec.neighbours = neighbours_of(topology, index, lids, state_dir);
  for (const node::NeighbourSpec& neighbour : spec.neighbours) command.peers.push_back(neighbour.name);
  if (node.spare_ports != 0) {
    spec.spare_ports = node.spare_ports;
    const LidRange range = spare_lid_ranges(topology)[index];
    spec.spare_lid = Lid(static_cast<uint16_t>(range.first));
    spec.spare_lids = range.count;
    command.peers.resize(command.peers.size() + node.spare_ports, "spare");
  }
  spec.ports =
      node.ports != 0 ? node.ports : static_cast<uint32_t>(std::max<size_t>(command.peers.size(), 1));
  const std::set<std::string> listen = listen_endpoints(topology, index, state_dir);
  spec.listen.assign(listen.begin(), listen.end());
  if (has_curve(topology, index) || joins_with_curve(topology, index))
    spec.curve_secret = secret_file(topology, node.name);
  if (has_curve(topology, index)) spec.curve_allow = state_dir + "/" + node.name + ".allow";
  command.spec = std::move(spec);
  return command;
}

template <class Spec>
Spec endnode_spec(const Topology& topology, const Endnode& node, const std::map<std::string, Lid>& lids,
                  const std::string& state_dir, LogLevel log_level) {
  auto spec = common_spec<Spec>(topology, node, state_dir, log_level);
  spec.lid = lids.at(node.name);
  spec.endpoint = join_endpoint(topology, node.switch_index, node.link, node.endpoint, state_dir);
  if (node.link == LinkKind::kZmq && has_curve(topology, node.switch_index)) {
    spec.curve_secret = secret_file(topology, node.name);
    spec.curve_server = public_file(topology, topology.switches[node.switch_index].name);
  }
  spec.pools = node.pools;
  return spec;
}

/// The spec of a host or unit, with all its links.
template <class Spec>
Spec linked_spec(const Topology& topology, const LinkedNode& node, const std::map<std::string, Lid>& lids,
                 const std::string& state_dir, LogLevel log_level) {
  auto spec = endnode_spec<Spec>(topology, node, lids, state_dir, log_level);
  for (const Endnode& link : node.further_links) {
    const auto further = endnode_spec<Spec>(topology, link, lids, state_dir, log_level);
    spec.further_links.push_back(
        {further.guid, further.lid, further.endpoint, further.curve_secret, further.curve_server});
  }
  spec.adapter_per_link = node.adapter_per_link;
  return spec;
}

/// Adds the host's ports. A TAP already has the address and MTU that the launcher set. Behind a host of a
/// bridging unit there may be other machines, so its interface gets all frames.
void add_host_ports(NodeCommand& command, node::HostSpec& spec, const HostNode& node,
                    const Topology& topology, const std::map<std::string, Lid>& lids) {
  for (const HostPort& port : node.ports) {
    const UnitNode& unit = topology.units[port.unit_index];
    node::HostPortSpec& out = spec.ports.emplace_back();
    out.unit = lids.at(unit.name);
    out.os = port.os;
    out.promiscuous = unit.bridge;
    out.via = port.via;
    const node::PortDescriptor descriptor = node::row_of(port.os.kind).descriptor;
    command.descriptors.push_back({descriptor, port.interface});
    if (descriptor != node::PortDescriptor::kNone) continue;
    out.mac = port.interface.mac;
    out.mtu_bytes = port.interface.mtu;
  }
}

NodeCommand host_command(const Topology& topology, const HostNode& node,
                         const std::map<std::string, Lid>& lids, const std::string& state_dir,
                         LogLevel log_level) {
  NodeCommand command{node.name, NodeRole::kHost, {}, {}, node.netns, {}};
  auto spec = linked_spec<node::HostSpec>(topology, node, lids, state_dir, log_level);
  spec.mode = node.mode;
  spec.encoding = node.encoding;
  spec.acks = node.acks;
  add_host_ports(command, spec, node, topology, lids);
  command.spec = std::move(spec);
  return command;
}

NodeCommand unit_command(const Topology& topology, const UnitNode& node,
                         const std::map<std::string, Lid>& lids, const std::string& state_dir,
                         LogLevel log_level) {
  NodeCommand command{node.name, NodeRole::kUnit, {}, {}, node.netns, {}};
  auto spec = linked_spec<node::UnitSpec>(topology, node, lids, state_dir, log_level);
  spec.nic = node.nic;
  spec.bridge = node.bridge;
  spec.promiscuous_allowed = node.promiscuous_allowed;
  spec.hosts_max = node.hosts_max;
  command.descriptors.push_back({node::row_of(node.nic.kind).descriptor, node.interface});
  command.spec = std::move(spec);
  return command;
}

/// Sets the descriptors in the spec of each kind of process.
struct DescriptorSetter {
  const std::vector<int>& ports;
  void operator()(node::SwitchSpec& /*spec*/) const {}
  void operator()(node::HostSpec& spec) const {
    for (size_t i = 0; i < std::min(ports.size(), spec.ports.size()); ++i) spec.ports[i].fd = ports[i];
  }
  void operator()(node::UnitSpec& spec) const {
    if (!ports.empty()) spec.nic_fd = ports.front();
  }
};

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
  const std::vector<LidRange> spare = spare_lid_ranges(topology);
  const uint32_t spare_begin = spare.empty() ? node::kSpareLidMax + 1U : spare.back().first;
  const auto is_spare = [&](Lid lid) {
    return lid.value() >= spare_begin && lid.value() <= node::kSpareLidMax;
  };
  for (const Endnode* node : nodes) {
    const auto kept = earlier.find(node->name);
    if (kept == earlier.end() || kept->second == kLidNone || kept->second.value() > kLidMax) continue;
    if (is_spare(kept->second)) continue;
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
    for (const std::string& key : topology.switches[i].spare_keys)
      if (!std::ifstream(public_file(topology, key))) missing.push_back(key);
  }
  if (missing.empty()) return {};
  return Error{fmt::format("no keys of {} in {}; make them with weft keygen --dir {} {}", joined(missing),
                           topology.curve_dir, topology.curve_dir, fmt::join(missing, " "))};
}

std::map<std::string, Lid> load_lids(const std::string& path) {
  std::map<std::string, Lid> lids;
  std::istringstream in(own_file_text(AT_FDCWD, path));
  std::string guid;
  std::string number;
  for (std::string name; in >> guid >> number >> name;)
    if (const Result<Lid> lid = node::parse_lid(number); lid.ok()) lids[name] = lid.value();
  return lids;
}

Result<std::string> curve_allow_text(const Topology& topology, uint32_t switch_index) {
  std::string text;
  if (!has_curve(topology, switch_index)) return text;
  const auto add = [&](const std::string& name, const std::string& guid) -> Status {
    const std::string path = public_file(topology, name);
    std::ifstream in(path);
    std::string key;
    if (!(in >> key) || key.size() != 40)
      return Error{fmt::format("{} holds no key; make a new one with weft keygen --force --dir {} {}", path,
                               topology.curve_dir, name)};
    text += fmt::format("{} {} {}\n", name, guid, key);
    return {};
  };
  for (const Endnode* node : endnodes_in_order(topology)) {
    if (node->switch_index != switch_index || node->link != LinkKind::kZmq) continue;
    if (Status added = add(node->name, node::guid_text(node->guid)); !added.ok()) return added.error();
  }
  for (const SwitchLink& link : topology.switch_links) {
    if (link.to != switch_index || link.link != LinkKind::kZmq) continue;
    const SwitchNode& from = topology.switches[link.from];
    if (Status added = add(from.name, node::guid_text(from.guid)); !added.ok()) return added.error();
  }
  for (const std::string& key : topology.switches[switch_index].spare_keys)
    if (Status added = add(key, "-"); !added.ok()) return added.error();
  return text;
}

Lid NodeCommand::lid() const noexcept {
  if (const auto* host = std::get_if<node::HostSpec>(&spec)) return host->lid;
  if (const auto* unit = std::get_if<node::UnitSpec>(&spec)) return unit->lid;
  return kLidNone;
}

node::NodeSpec with_descriptors(node::NodeSpec spec, int parent_fd, const std::vector<int>& ports) {
  node::process_of(spec).parent_fd = parent_fd;
  std::visit(DescriptorSetter{ports}, spec);
  return spec;
}

std::vector<NodeCommand> node_commands(const Topology& topology, const std::map<std::string, Lid>& lids,
                                       const std::string& state_dir, LogLevel log_level) {
  std::vector<NodeCommand> commands;
  for (uint32_t i = 0; i < topology.switches.size(); ++i)
    commands.push_back(switch_command(topology, i, lids, state_dir, log_level));
  for (const UnitNode& node : topology.units)
    commands.push_back(unit_command(topology, node, lids, state_dir, log_level));
  for (const HostNode& node : topology.hosts)
    commands.push_back(host_command(topology, node, lids, state_dir, log_level));
  return commands;
}

}  // namespace weft::tools
