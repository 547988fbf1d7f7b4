#include "node/spec_lists.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::node {
namespace {

/// The field of every port; empty if all have the default.
template <class Value>
std::vector<Value> column(const std::vector<HostPortSpec>& ports, Value HostPortSpec::*field) {
  std::vector<Value> out;
  out.reserve(ports.size());
  for (const HostPortSpec& port : ports) out.push_back(port.*field);
  const bool plain = std::all_of(out.begin(), out.end(),
                                 [field](const Value& value) { return value == HostPortSpec{}.*field; });
  return plain ? std::vector<Value>{} : out;
}

/// The inverse; ports without a value keep the default.
template <class Value>
void set_column(const std::vector<Value>& values, Value HostPortSpec::*field,
                std::vector<HostPortSpec>& ports) {
  for (size_t i = 0; i < std::min(values.size(), ports.size()); ++i) ports[i].*field = values[i];
}

}  // namespace

LinkLists split(const std::vector<FurtherLinkSpec>& links) {
  LinkLists out;
  for (const FurtherLinkSpec& link : links) {
    out.links.push_back(link);
    out.links.back().curve_secret = out.links.back().curve_server = {};
    out.secrets.push_back(link.curve_secret);
    out.servers.push_back(link.curve_server);
  }
  const auto is_empty = [](const std::string& file) { return file.empty(); };
  for (std::vector<std::string>* files : {&out.secrets, &out.servers})
    if (std::all_of(files->begin(), files->end(), is_empty)) files->clear();
  return out;
}

std::string join(const LinkLists& lists, std::vector<FurtherLinkSpec>& links) {
  links = lists.links;
  if (std::max(lists.secrets.size(), lists.servers.size()) > links.size())
    return "give at most one --link-curve-secret and --link-curve-server for each --link";
  for (size_t i = 0; i < lists.secrets.size(); ++i) links[i].curve_secret = lists.secrets[i];
  for (size_t i = 0; i < lists.servers.size(); ++i) links[i].curve_server = lists.servers[i];
  return {};
}

PortLists split(const std::vector<HostPortSpec>& ports) {
  PortLists out;
  for (const HostPortSpec& port : ports) {
    out.units.push_back(port.unit);
    out.os.push_back(port.os);
  }
  out.fds = column(ports, &HostPortSpec::fd);
  out.macs = column(ports, &HostPortSpec::mac);
  out.mtus = column(ports, &HostPortSpec::mtu_bytes);
  out.promiscuous = column(ports, &HostPortSpec::promiscuous);
  out.via = column(ports, &HostPortSpec::via);
  return out;
}

std::string join(const PortLists& lists, std::vector<HostPortSpec>& ports) {
  const size_t count = lists.units.size();
  if (count == 0) return "--unit is missing: the LID of an I/O unit";
  if (lists.os.size() != count) return "give one --os for each --unit";
  const size_t longest = std::max(
      {lists.fds.size(), lists.macs.size(), lists.mtus.size(), lists.promiscuous.size(), lists.via.size()});
  if (longest > count)
    return "give at most one --os-fd, --mac, --mtu, --promiscuous and --via for each --unit";
  ports.assign(count, {});
  set_column(lists.units, &HostPortSpec::unit, ports);
  set_column(lists.os, &HostPortSpec::os, ports);
  set_column(lists.fds, &HostPortSpec::fd, ports);
  set_column(lists.macs, &HostPortSpec::mac, ports);
  // A single MTU applies to all interfaces.
  const bool shared = lists.mtus.size() == 1;
  set_column(shared ? std::vector<uint32_t>(count, lists.mtus.front()) : lists.mtus, &HostPortSpec::mtu_bytes,
             ports);
  set_column(lists.promiscuous, &HostPortSpec::promiscuous, ports);
  set_column(lists.via, &HostPortSpec::via, ports);
  return {};
}

NeighbourLists split(const std::vector<NeighbourSpec>& neighbours) {
  NeighbourLists out;
  for (const NeighbourSpec& neighbour : neighbours) {
    if (!neighbour.endpoint.empty()) out.joins.push_back({neighbour.name, neighbour.endpoint});
    if (!neighbour.key.empty()) out.keys.push_back({neighbour.name, neighbour.key});
  }
  return out;
}

std::string join(const NeighbourLists& lists, std::vector<NeighbourSpec>& neighbours) {
  const auto named_so = [&neighbours](const std::string& name) {
    return std::find_if(neighbours.begin(), neighbours.end(),
                        [&name](const NeighbourSpec& neighbour) { return neighbour.name == name; });
  };
  for (const NamedText& item : lists.joins) {
    const auto at = named_so(item.name);
    const std::string option = fmt::format("--join {}={}", item.name, item.rest);
    if (at == neighbours.end()) return fmt::format("{}: there is no --neighbour {}", option, item.name);
    if (!at->endpoint.empty()) return fmt::format("{}: stands twice", option);
    at->endpoint = item.rest;
  }
  for (const NamedText& item : lists.keys) {
    const auto at = named_so(item.name);
    const std::string option = fmt::format("--neighbour-key {}={}", item.name, item.rest);
    if (at == neighbours.end() || at->endpoint.empty())
      return fmt::format("{}: there is no --join {}", option, item.name);
    if (!at->key.empty()) return fmt::format("{}: stands twice", option);
    at->key = item.rest;
  }
  return {};
}

}  // namespace weft::node
