// How it works: toml++ parses the text and keeps the position of every value. The reader below makes typed
// nodes of the tables, in file order, and then resolves the names between them. The first error throws a
// TopologyFault, which parse_topology() turns into an Error.
#include "tools/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/names.h"
#include "base/words.h"
#include "control/management.h"
#include "node/spec_values.h"
#include "tools/topology/topology_parts.h"
#include "tools/topology/topology_section.h"
#include "tools/topology/topology_text.h"

namespace weft::tools {
namespace {

using node::NicKind;
using node::OsKind;
static_assert(kTopologyPortsMax == control::kControlPortsMax && kTopologyPortsMax <= node::kSwitchPortsMax);

/// Reads one file; exists during one parse_topology().
class TopologyReader {
 public:
  TopologyReader(const toml::table& root, const std::string& file) : root_(root), file_(file) {}
  Topology read();

 private:
  void read_switch(const toml::table& table);
  void read_spare_ports(TopologySection& section, SwitchNode& node);
  void read_host(const toml::table& table);
  void read_unit(const toml::table& table);
  void read_switch_link(const toml::table& table);
  void read_endnode(TopologySection& section, Endnode& node);
  void read_attachment(TopologySection& section, Endnode& node);
  void read_links(TopologySection& section, LinkedNode& node, const char* kind);
  void read_further_link(const toml::table& table, LinkedNode& node, const char* kind);
  void read_via(TopologySection& section, HostPort& port, const HostNode& host);
  [[nodiscard]] bool reaches(uint32_t from, uint32_t to) const;
  LinkKind read_link_kind(TopologySection& section, std::string& endpoint);
  uint32_t switch_named(TopologySection& section, const char* key, const std::string& name);
  void read_host_port(TopologySection& section, HostPort& port, const HostNode& host, uint32_t index);
  void read_interface(TopologySection& section, InterfaceSettings& interface, const std::string& default_name,
                      const std::string& unit);
  void read_packet_interface(TopologySection& section, InterfaceSettings& interface);
  void read_pools(TopologySection& section, Endnode& node);
  std::string node_name(TopologySection& section, const char* example);
  std::string netns(TopologySection& section);
  void check_interface_free(TopologySection& section, const std::string& netns, const std::string& name);
  void check_mac_free(TopologySection& section, const std::string& unit, const MacAddress& mac);
  void check_room(TopologySection& section, const HostNode& host, uint32_t unit_index);
  void claim(TopologySection& section, const char* key, const std::string& thing, const std::string& scope);
  void read_nic(TopologySection& section, UnitNode& node);
  void read_pcap(TopologySection& section, node::NicName& nic);
  void read_fault_rule(const toml::table& table);
  void check_endpoints() const;
  void check_something_to_run() const;

  const toml::table& root_;
  const std::string& file_;
  Topology out_;
  std::map<std::string, const toml::table*> names_;
  std::vector<std::string> switch_names_;
  std::vector<std::string> unit_names_;
  // (scope, thing) pairs of things that may be used only once.
  std::set<std::pair<std::string, std::string>> claimed_;
  std::vector<uint32_t> hosts_of_unit_;  // number of hosts by unit index
  uint32_t endnodes_ = 0;
  uint32_t spare_lids_ = 0;  // sum over all switches
};

/// Checks a name that stands at `key`, or that was derived from the node's name when the key is missing.
void check_name(const TopologySection& section, const char* key, const std::string& name, size_t bytes_max,
                std::string_view what) {
  const std::string fault = name_fault(name, bytes_max, what);
  if (fault.empty()) return;
  if (section.has(key)) section.fault(key, fault);
  section.fault("name", fmt::format("{}; set '{}'", fault, key));
}

std::string TopologyReader::node_name(TopologySection& section, const char* example) {
  std::string name = section.required_text("name", example);
  check_name(section, "name", name, node::kNodeNameBytesMax, "a node");
  if (name == "weft") section.fault("name", "'weft' is the launcher's own name; choose another");
  const auto [earlier, fresh] = names_.emplace(name, &section.table());
  if (!fresh)
    section.fault("name", fmt::format("'{}' is already the node at line {}; names are unique", name,
                                      earlier->second->source().begin.line));
  if (names_.size() > kTopologyNodesMax)
    section.fault_here(fmt::format("at most {} nodes", kTopologyNodesMax));
  return name;
}

std::string TopologyReader::netns(TopologySection& section) {
  std::string name = section.text("netns", {});
  if (!name.empty()) check_name(section, "netns", name, node::kNodeNameBytesMax, "a namespace");
  return name;
}

void TopologyReader::read_spare_ports(TopologySection& section, SwitchNode& node) {
  node.spare_ports = section.number("spare_ports", 0, kTopologyPortsMax, 0);
  spare_lids_ += fabric::spare_lids(node.spare_ports);
  if (spare_lids_ > node::kSpareLidsTogetherMax)
    section.fault("spare_ports", fmt::format("too many spare ports in the fabric: they need more than {} "
                                             "LIDs, 16 for each port and at least 64 for a switch",
                                             node::kSpareLidsTogetherMax));
  node.spare_keys = section.texts("spare_keys");
  if (!node.spare_keys.empty() && node.spare_ports == 0)
    section.fault("spare_keys", "'spare_keys' needs spare ports; add spare_ports = 8");
  if (!node.spare_keys.empty() && out_.curve_dir.empty())
    section.fault("spare_keys", "'spare_keys' needs [curve] keys = \"DIRECTORY\"");
  for (const std::string& key : node.spare_keys)
    check_name(section, "spare_keys", key, node::kNodeNameBytesMax, "a key");
}

void TopologyReader::read_switch(const toml::table& table) {
  TopologySection section(table, file_, "[[switch]]");
  SwitchNode node;
  node.name = node_name(section, "s1");
  node.guid = stable_guid(out_.fabric, node.name);
  node.ports = section.number("ports", 1, kTopologyPortsMax, 0);
  read_spare_ports(section, node);
  node.netns = netns(section);
  node.core = section.number("core", 0, kCoreMax, kAnyCore);
  node.listen = section.texts("listen");
  for (const std::string& endpoint : node.listen)
    if (!valid_endpoint(endpoint))
      section.fault("listen", fmt::format("'{}' is not an endpoint; write tcp://ADDRESS:PORT or ipc:///PATH",
                                          endpoint));
  section.finish();
  switch_names_.push_back(node.name);
  out_.switches.push_back(std::move(node));
}

void TopologyReader::read_pools(TopologySection& section, Endnode& node) {
  for (const std::string& text : section.texts("pools")) {
    const Result<node::PoolSpec> pool = node::parse_pool(text);
    if (!pool.ok()) section.fault("pools", fmt::format("'{}': {}", text, pool.error().text));
    node.pools.push_back(pool.value());
  }
  if (const std::string fault = node::pools_fault(node.pools); !fault.empty()) section.fault("pools", fault);
}

/// Index of a switch of the file.
uint32_t TopologyReader::switch_named(TopologySection& section, const char* key, const std::string& name) {
  const auto at = std::find(switch_names_.begin(), switch_names_.end(), name);
  if (at == switch_names_.end())
    section.fault(key, fmt::format("there is no switch '{}'{}", name, choices(name, switch_names_)));
  return static_cast<uint32_t>(at - switch_names_.begin());
}

LinkKind TopologyReader::read_link_kind(TopologySection& section, std::string& endpoint) {
  const auto kind = static_cast<LinkKind>(section.choice("link", {"auto", "shm", "zmq"}, 0));
  endpoint = section.text("endpoint", {});
  if (!endpoint.empty() && !valid_endpoint(endpoint))
    section.fault("endpoint",
                  fmt::format("'{}' is not an endpoint; write tcp://ADDRESS:PORT or ipc:///PATH", endpoint));
  if (!endpoint.empty() && kind != LinkKind::kZmq)
    section.fault("endpoint", "only a zmq link has an endpoint; add link = \"zmq\" or leave it out");
  return kind;
}

/// Links must form a tree: in a loop of switches cells could wait for each other's credits for ever.
void TopologyReader::read_switch_link(const toml::table& table) {
  TopologySection section(table, file_, "[[link]]");
  const std::vector<std::string> ends = section.texts("switches");
  if (ends.size() != 2 || ends[0] == ends[1])
    section.fault("switches",
                  "a link joins two switches: switches = [\"s1\", \"s2\"], of which the second listens");
  SwitchLink link;
  link.from = switch_named(section, "switches", ends[0]);
  link.to = switch_named(section, "switches", ends[1]);
  link.link = read_link_kind(section, link.endpoint);
  if (next_switches(out_, link.from)[link.to] != kNoSwitch)
    section.fault("switches",
                  fmt::format("'{}' and '{}' are joined already; a loop of switches can block itself, so "
                              "leave this link out",
                              ends[0], ends[1]));
  section.finish();
  out_.switch_links.push_back(std::move(link));
}

/// Reads to which switch, and how, a node or a further port of a host is linked.
void TopologyReader::read_attachment(TopologySection& section, Endnode& node) {
  node.guid = stable_guid(out_.fabric, node.name);
  node.order = endnodes_++;
  const std::string on =
      section.text("switch", switch_names_.size() == 1 ? switch_names_.front() : std::string{});
  if (on.empty())
    section.fault_here(fmt::format("node '{}' needs 'switch'; known: {}", node.name, joined(switch_names_)));
  node.switch_index = switch_named(section, "switch", on);
  node.link = read_link_kind(section, node.endpoint);
}

void TopologyReader::read_endnode(TopologySection& section, Endnode& node) {
  read_attachment(section, node);
  node.netns = netns(section);
  node.core = section.number("core", 0, kCoreMax, kAnyCore);
  read_pools(section, node);
}

/// Port N of a host or unit has the node name NODE.N for its switch, for `weft fault` and for CURVE keys.
void TopologyReader::read_further_link(const toml::table& table, LinkedNode& node, const char* kind) {
  TopologySection section(table, file_, fmt::format("[[{}.uplink]]", kind));
  Endnode link;
  link.name = fmt::format("{}.{}", node.name, node.further_links.size() + 2);
  if (const std::string fault = name_fault(link.name, node::kNodeNameBytesMax, "a port"); !fault.empty())
    section.fault_here(fault);
  const auto [earlier, fresh] = names_.emplace(link.name, &table);
  if (!fresh)
    section.fault_here(fmt::format("this port would have the name '{}' of the node at line {}", link.name,
                                   earlier->second->source().begin.line));
  read_attachment(section, link);
  section.finish();
  node.further_links.push_back(std::move(link));
}

void TopologyReader::read_links(TopologySection& section, LinkedNode& node, const char* kind) {
  const std::vector<const toml::table*> links = section.tables("uplink");
  if (links.size() + 1 > node::kLinksMax)
    section.fault("uplink", fmt::format("a {} has at most {} links", kind, node::kLinksMax));
  for (const toml::table* link : links) read_further_link(*link, node, kind);
  node.adapter_per_link = section.choice("adapters", {"one", "per-link"}, 0) == 1;
  if (node.adapter_per_link && links.empty())
    section.fault("adapters", fmt::format("'adapters' is for several links: add [[{}.uplink]]", kind));
}

bool TopologyReader::reaches(uint32_t from, uint32_t to) const {
  return from == to || next_switches(out_, from)[to] != kNoSwitch;
}

/// Chooses the port that leads to the unit. Unless the file names one, that is the first port on the unit's
/// own switch, else the first port from whose switch links lead to the unit.
void TopologyReader::read_via(TopologySection& section, HostPort& port, const HostNode& host) {
  const UnitNode& unit = out_.units[port.unit_index];
  std::vector<uint32_t> switches{host.switch_index};
  for (const Endnode& link : host.further_links) switches.push_back(link.switch_index);
  const auto count = static_cast<uint32_t>(switches.size());
  port.via = section.number("via", 1, count, 0);
  const bool given = port.via != 0;
  for (uint32_t i = 0; !given && i < count; ++i) {
    const bool near = switches[i] == unit.switch_index;
    const bool better = port.via == 0 || (near && switches[port.via - 1] != unit.switch_index);
    if (better && reaches(switches[i], unit.switch_index)) port.via = i + 1;
  }
  const uint32_t at = port.via == 0 ? host.switch_index : switches[port.via - 1];
  if (port.via != 0 && reaches(at, unit.switch_index)) return;
  section.fault(
      given ? "via" : (section.has("unit") ? "unit" : "name"),
      fmt::format(
          "unit '{}' is on switch '{}', host '{}' on '{}', and no [[link]] leads from one to the other",
          unit.name, switch_names_[unit.switch_index], host.name, switch_names_[at]));
}

/// Records the use of a thing that may be used only once; `scope` ends the error text: "on the LAN of unit
/// 'u1'".
void TopologyReader::claim(TopologySection& section, const char* key, const std::string& thing,
                           const std::string& scope) {
  if (!claimed_.emplace(scope, thing).second)
    section.fault(section.has(key) ? key : "name", fmt::format("{} is used twice {}", thing, scope));
}

void TopologyReader::check_interface_free(TopologySection& section, const std::string& netns_name,
                                          const std::string& name) {
  claim(section, "interface", fmt::format("interface '{}'", name),
        netns_name.empty() ? "in the launcher's namespace" : fmt::format("in namespace '{}'", netns_name));
}

void TopologyReader::read_interface(TopologySection& section, InterfaceSettings& interface,
                                    const std::string& default_name, const std::string& unit) {
  interface.name = section.text("interface", default_name);
  check_name(section, "interface", interface.name, node::kInterfaceNameBytesMax, "an interface");
  interface.addresses = section.texts("addresses");
  if (interface.addresses.size() > kAddressesMax)
    section.fault("addresses", fmt::format("at most {} addresses", kAddressesMax));
  for (const std::string& address : interface.addresses)
    if (!valid_prefix(address))
      section.fault(
          "addresses",
          fmt::format("'{}' is not an address with its prefix length, like \"10.9.0.1/24\"", address));
  for (const std::string& address : interface.addresses)
    claim(section, "addresses", fmt::format("address {}", address_of(address)),
          fmt::format("on the LAN of unit '{}'", unit));
  interface.gateway = section.text("gateway", {});
  if (interface.gateway.empty()) return;
  if (!valid_ip(interface.gateway))
    section.fault("gateway", fmt::format("'{}' is not an IP address", interface.gateway));
  if (!reaches_gateway(interface.addresses, interface.gateway))
    section.fault("gateway", fmt::format("gateway {} lies in no network of 'addresses'", interface.gateway));
}

void TopologyReader::read_packet_interface(TopologySection& section, InterfaceSettings& interface) {
  interface.name = section.required_text("interface", "eth0");
  check_name(section, "interface", interface.name, node::kInterfaceNameBytesMax, "an interface");
}

void TopologyReader::check_mac_free(TopologySection& section, const std::string& unit,
                                    const MacAddress& mac) {
  claim(section, "mac", fmt::format("MAC address {}", weft::to_string(mac)),
        fmt::format("on the LAN of unit '{}'", unit));
}

void set_station(InterfaceSettings& interface, const Station& station) {
  interface.mtu = station.mtu;
  interface.mac = station.mac;
  interface.mac_given = station.mac_given;
}

void TopologyReader::read_host_port(TopologySection& section, HostPort& port, const HostNode& host,
                                    uint32_t index) {
  const std::string on = section.text("unit", unit_names_.size() == 1 ? unit_names_.front() : std::string{});
  const auto at = std::find(unit_names_.begin(), unit_names_.end(), on);
  if (at == unit_names_.end()) {
    if (unit_names_.empty())
      section.fault_here(fmt::format("host '{}' needs a unit; add [[unit]] with name = \"u1\"", host.name));
    if (on.empty())
      section.fault_here(fmt::format("host '{}' needs 'unit'; known: {}", host.name, joined(unit_names_)));
    section.fault("unit", fmt::format("host '{}' names unit '{}', which does not exist{}", host.name, on,
                                      choices(on, unit_names_)));
  }
  port.unit_index = static_cast<uint32_t>(at - unit_names_.begin());
  const UnitNode& unit = out_.units[port.unit_index];
  read_via(section, port, host);
  set_station(port.interface, read_station(section, stable_mac(out_.fabric, host.name, index)));
  check_mac_free(section, unit.name, port.interface.mac);
  check_room(section, host, port.unit_index);
  const std::string text = section.text("os", "tap");
  port.os = read_os(section, text);
  switch (port.os.kind) {
    case OsKind::kTap: {
      const std::string suffix = index == 0 ? std::string{} : fmt::format("-{}", index);
      read_interface(section, port.interface, fmt::format("weft-{}{}", host.name, suffix), unit.name);
      check_interface_free(section, host.netns, port.interface.name);
      port.os.argument = port.interface.name;
      return;
    }
    case OsKind::kUnix:
      claim(section, "os", fmt::format("socket {}", port.os.argument), "by hosts");
      break;
    case OsKind::kGen:
      break;
  }
  section.no_use({"interface", "addresses", "gateway"},
                 fmt::format("needs os = \"tap\"; this host has os = \"{}\"", text));
}

/// A unit serves a limited number of hosts. Without this check an excess host would fail only when it joins.
void TopologyReader::check_room(TopologySection& section, const HostNode& host, uint32_t unit_index) {
  const UnitNode& unit = out_.units[unit_index];
  if (++hosts_of_unit_[unit_index] <= unit.hosts_max) return;
  section.fault(
      section.has("unit") ? "unit" : "name",
      fmt::format("unit '{}' serves {} hosts, and '{}' is one more: write hosts = {} or more, at most {}, at "
                  "the unit, or add another unit",
                  unit.name, unit.hosts_max, host.name, unit.hosts_max + 1, node::kHostsPerUnitMax));
}

void TopologyReader::read_host(const toml::table& table) {
  TopologySection section(table, file_, "[[host]]");
  HostNode node;
  node.name = node_name(section, "h1");
  read_endnode(section, node);
  const std::vector<std::string>& modes = node::mode_words();
  node.mode = node::parse_mode(modes[section.choice("mode", modes, 0)]).value();
  const std::vector<std::string>& encodings = node::encoding_words();
  node.encoding = node::parse_encoding(encodings[section.choice("encoding", encodings, 0)]).value();
  const std::vector<std::string>& acks = node::ack_words();
  node.acks = node::parse_acks(acks[section.choice("acks", acks, 0)]).value();
  if (const std::string fault = node::acks_fault(node.acks, node.mode); !fault.empty())
    section.fault("acks", fault);
  read_links(section, node, "host");
  const std::vector<const toml::table*> ports = section.tables("port");
  if (ports.size() > node::kHostPortsMax)
    section.fault("port", fmt::format("a host has at most {} ports", node::kHostPortsMax));
  if (ports.empty()) read_host_port(section, node.ports.emplace_back(), node, 0);
  for (const toml::table* port : ports) {
    TopologySection part(*port, file_, "[[host.port]]");
    const auto index = static_cast<uint32_t>(node.ports.size());
    read_host_port(part, node.ports.emplace_back(), node, index);
    part.finish();
  }
  section.finish();
  out_.hosts.push_back(std::move(node));
}

/// Reads the file to play and, if given, the file to write.
void TopologyReader::read_pcap(TopologySection& section, node::NicName& nic) {
  nic.output = section.text("output", {});
  nic.argument = section.required_text("input", "frames.pcap");
  if (nic.argument.empty() || nic.argument.find(',') != std::string::npos)
    section.fault("input", "must name a file without a comma in its name");
  if (nic.output == nic.argument)
    section.fault("output", "'output' is the file of 'input': the frames to play would be lost");
  if (!nic.output.empty()) claim(section, "output", fmt::format("file {}", nic.output), "as output");
}

void TopologyReader::read_nic(TopologySection& section, UnitNode& node) {
  const std::vector<std::string> words = nic_words();
  node.nic.kind = node::kNicKinds[section.choice("nic", words, 0)].kind;
  const auto goes_with = [&](const char* kinds) {
    return fmt::format("needs nic = {}; this unit has {}\"{}\"", kinds,
                       section.has("nic") ? "" : "none, which is ", to_string(node.nic.kind));
  };
  switch (node.nic.kind) {
    case NicKind::kTap:
      set_station(node.interface, read_station(section, stable_mac(out_.fabric, node.name, 0)));
      read_interface(section, node.interface, fmt::format("weft-{}", node.name), node.name);
      check_mac_free(section, node.name, node.interface.mac);
      break;
    case NicKind::kPacket:
      set_station(node.interface, read_station(section, {}));
      read_packet_interface(section, node.interface);
      if (node.interface.mac_given) check_mac_free(section, node.name, node.interface.mac);
      section.no_use(
          {"addresses", "gateway"},
          fmt::format("cannot be set at an interface that exists; use ip address and ip route with dev {}",
                      node.interface.name));
      break;
    case NicKind::kPcap:
      read_pcap(section, node.nic);
      break;
    case NicKind::kEcho:
    case NicKind::kSlirp:
      break;
  }
  if (node::row_of(node.nic.kind).argument == node::PortArgument::kInterface) {
    check_interface_free(section, node.netns, node.interface.name);
    node.nic.argument = node.interface.name;
  }
  section.no_use(node.nic.kind == NicKind::kPcap ? std::initializer_list<const char*>{}
                                                 : std::initializer_list<const char*>{"input", "output"},
                 goes_with("\"pcap\""));
  if (node.nic.kind == NicKind::kTap || node.nic.kind == NicKind::kPacket) return;
  section.no_use({"interface"}, goes_with("\"tap\" or \"packet\""));
  section.no_use({"mtu", "mac"}, goes_with("\"tap\" or \"packet\""));
  section.no_use({"addresses", "gateway"}, goes_with("\"tap\""));
}

void TopologyReader::read_unit(const toml::table& table) {
  TopologySection section(table, file_, "[[unit]]");
  UnitNode node;
  node.name = node_name(section, "u1");
  read_endnode(section, node);
  read_links(section, node, "unit");
  read_nic(section, node);
  node.bridge = section.flag("bridge", false);
  node.promiscuous_allowed = section.choice("promiscuous", {"refused", "allowed"}, 0) == 1;
  node.hosts_max = section.number("hosts", 1, node::kHostsPerUnitMax, node::kHostsPerUnitDefault);
  section.finish();
  hosts_of_unit_.push_back(0);
  unit_names_.push_back(node.name);
  out_.units.push_back(std::move(node));
}

void TopologyReader::check_endpoints() const {
  const auto check = [&](const std::string& node, const std::string& endpoint) {
    if (out_.curve_dir.empty() && !endpoint.empty() && !is_local_endpoint(endpoint))
      topology_fault(
          file_, *names_.at(node),
          fmt::format("node '{}' uses {}, which other machines can reach: make keys with `weft keygen` and "
                      "add [curve] keys = \"DIRECTORY\"",
                      node, endpoint));
  };
  for (const SwitchNode& node : out_.switches) {
    for (const std::string& endpoint : node.listen) check(node.name, endpoint);
    for (const std::string& key : node.spare_keys)
      if (names_.contains(key))
        topology_fault(file_, *names_.at(node.name),
                       fmt::format("spare_keys: '{}' is a node and joins its own port", key));
  }
  for (const SwitchLink& link : out_.switch_links) check(out_.switches[link.to].name, link.endpoint);
  const auto check_links = [&](const LinkedNode& node) {
    check(node.name, node.endpoint);
    for (const Endnode& link : node.further_links) check(link.name, link.endpoint);
  };
  for (const HostNode& node : out_.hosts) check_links(node);
  for (const UnitNode& node : out_.units) check_links(node);
}

void TopologyReader::check_something_to_run() const {
  if (out_.switches.empty()) topology_fault(file_, root_, "no switch; add [[switch]] with name = \"s1\"");
  for (size_t i = 0; i < out_.switches.size(); ++i) {
    const SwitchNode& node = out_.switches[i];
    const auto here = [i](const Endnode& endnode) { return endnode.switch_index == i; };
    const auto ends_here = [i](const SwitchLink& link) { return link.from == i || link.to == i; };
    const auto links_here = [&here](const LinkedNode& linked) {
      return (here(linked) ? 1 : 0) +
             std::count_if(linked.further_links.begin(), linked.further_links.end(), here);
    };
    auto count = std::count_if(out_.switch_links.begin(), out_.switch_links.end(), ends_here);
    for (const HostNode& host : out_.hosts) count += links_here(host);
    for (const UnitNode& unit : out_.units) count += links_here(unit);
    const uint32_t ports = node.ports == 0 ? kTopologyPortsMax : node.ports;
    const std::string spare =
        node.spare_ports == 0 ? "" : fmt::format(", beside {} spare ports", node.spare_ports);
    if (static_cast<size_t>(count) + node.spare_ports > ports)
      topology_fault(file_, *names_.at(node.name),
                     fmt::format("switch '{}' has {} ports but {} nodes and links use it{}", node.name, ports,
                                 count, spare));
  }
}

/// Reads a fault for a node, a switch or its port, or for the name of a program that may join a spare port.
void TopologyReader::read_fault_rule(const toml::table& table) {
  TopologySection section(table, file_, "[[fault]]");
  FaultOrder order = read_fault(section);
  if (order.kind == "freeze" || order.kind == "kill")
    section.fault("kind", fmt::format("{} is for a script: weft fault script FILE", order.kind));
  const std::string first = order.target.substr(0, order.target.rfind(':'));
  const bool is_switch = std::find(switch_names_.begin(), switch_names_.end(), first) != switch_names_.end();
  if (!is_switch && !names_.contains(order.target)) {
    const bool spare = std::any_of(out_.switches.begin(), out_.switches.end(),
                                   [](const SwitchNode& node) { return node.spare_ports != 0; });
    if (!spare) {
      std::vector<std::string> known;
      for (const auto& [name, node] : names_) known.push_back(name);
      section.fault("target", fmt::format("'{}' is no node, switch or SWITCH:PORT of this file{}",
                                          order.target, choices(order.target, known)));
    }
    check_name(section, "target", order.target, node::kNodeNameBytesMax, "a node");
    order.prepare = true;
  }
  out_.faults.push_back(std::move(order));
}

Topology TopologyReader::read() {
  TopologySection root(root_, file_, "the file");
  out_.fabric = root.required_text("fabric", "demo");
  check_name(root, "fabric", out_.fabric, node::kNodeNameBytesMax, "a fabric");
  out_.direct = root.flag("direct", false);
  if (const toml::table* links = root.subtable("links"); links != nullptr) {
    const LinkSettings settings = read_link_settings(*links, file_);
    out_.links = settings.links;
    out_.cut_through = settings.cut_through;
    out_.lane_order = settings.lane_order;
  }
  if (const toml::table* curve = root.subtable("curve"); curve != nullptr) {
    TopologySection section(*curve, file_, "[curve]");
    out_.curve_dir = section.required_text("keys", "keys");
    section.finish();
  }
  const std::vector<const toml::table*> switches = root.tables("switch");
  const std::vector<const toml::table*> links = root.tables("link");
  const std::vector<const toml::table*> hosts = root.tables("host");
  const std::vector<const toml::table*> units = root.tables("unit");
  const std::vector<const toml::table*> faults = root.tables("fault");
  root.finish();  // first of all, so that a misspelled table is not reported as a missing one
  for (const toml::table* table : switches) read_switch(*table);
  for (const toml::table* table : links) read_switch_link(*table);
  for (const toml::table* table : units) read_unit(*table);  // before hosts, which name units
  for (const toml::table* table : hosts) read_host(*table);

  // LIDs follow the order of the file (decisions 2.15), not of reading.
  std::map<std::pair<unsigned, unsigned>, Endnode*> by_place;
  const auto place = [&](Endnode& node) {
    const toml::source_position at = names_.at(node.name)->source().begin;
    by_place[{at.line, at.column}] = &node;
  };
  const auto place_links = [&](LinkedNode& node) {
    place(node);
    for (Endnode& link : node.further_links) place(link);
  };
  for (HostNode& node : out_.hosts) place_links(node);
  for (UnitNode& node : out_.units) place_links(node);
  uint32_t order = 0;
  for (auto& [at, node] : by_place) node->order = order++;

  check_something_to_run();
  check_endpoints();
  for (const toml::table* table : faults) read_fault_rule(*table);
  sort_by_time(out_.faults);
  return std::move(out_);
}

}  // namespace

Result<Topology> parse_topology(std::string_view text, const std::string& file_name) {
  try {
    const toml::table root = toml::parse(text, file_name);
    return TopologyReader(root, file_name).read();
  } catch (const toml::parse_error& fault) {
    const toml::source_position at = fault.source().begin;
    return Error{fmt::format("{}:{}:{}: {}", file_name, at.line, at.column, fault.description())};
  } catch (const TopologyFault& fault) {
    return Error{fault.text};
  }
}

}  // namespace weft::tools
