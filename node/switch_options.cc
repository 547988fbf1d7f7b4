#include "node/switch_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "fabric/carrier/curve_keys.h"

namespace weft::node {
namespace {

/// "NAME=REST".
struct Named {
  std::string name;
  std::string rest;
};
Result<Named> parse_named(const char* option, const std::string& text, const char* form) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    return Error{fmt::format("{} {}: write {}", option, text, form)};
  return Named{text.substr(0, equals), text.substr(equals + 1)};
}

template <class Number>
bool parse_whole(std::string_view text, int base, Number& out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return fault == std::errc() && end == text.data() + text.size();
}

bool parse_lid(std::string_view text, Lid& out) {
  uint16_t lid = 0;
  if (!parse_whole(text, 10, lid) || lid == 0 || lid > kLidMax) return false;
  out = Lid(lid);
  return true;
}

/// "NAME=GUIDHEX:REST"; the rest stays for the caller.
Result<Named> parse_guid(const char* option, const std::string& text, const char* form,
                         fabric::NodeEntry& out) {
  Result<Named> named = parse_named(option, text, form);
  if (!named) return named;
  std::string& rest = named->rest;
  const size_t colon = rest.find(':');
  if (colon == std::string::npos) return Error{fmt::format("{} {}: write {}", option, text, form)};
  std::string_view digits = std::string_view(rest).substr(0, colon);
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  uint64_t guid = 0;
  if (!parse_whole(digits, 16, guid))
    return Error{fmt::format("{} {}: the GUID is hexadecimal", option, text)};
  out.name = named->name;
  out.guid = Guid(guid);
  rest.erase(0, colon + 1);
  return named;
}

Result<fabric::NodeEntry> parse_node(const std::string& text) {
  fabric::NodeEntry node;
  const Result<Named> named = parse_guid("--node", text, "NAME=GUID:LID", node);
  if (!named) return named.error();
  if (!parse_lid(named.value().rest, node.lid))
    return Error{fmt::format("--node {}: the LID is a number from 1 to {}", text, kLidMax)};
  return node;
}

Result<fabric::NodeEntry> parse_neighbour(const std::string& text) {
  fabric::NodeEntry node;
  const Result<Named> named = parse_guid("--neighbour", text, "NAME=GUID:LID,LID,...", node);
  if (!named) return named.error();
  std::string_view list = named.value().rest;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    Lid lid;
    if (!parse_lid(list.substr(0, comma), lid))
      return Error{fmt::format("--neighbour {}: LIDs are numbers from 1 to {}", text, kLidMax)};
    node.beyond.push_back(lid);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return node;
}

/// The neighbour that `option` names; null when there is none.
fabric::NodeEntry* find_neighbour(std::vector<fabric::NodeEntry>& nodes, const std::string& name) {
  const auto at = std::find_if(nodes.begin(), nodes.end(), [&name](const fabric::NodeEntry& node) {
    return node.is_switch() && node.name == name;
  });
  return at == nodes.end() ? nullptr : &*at;
}

Status plan_joins(const SwitchOptions& options, SwitchPlan& plan) {
  for (const std::string& text : options.joins) {
    Result<Named> join = parse_named("--join", text, "NAME=ENDPOINT");
    if (!join) return join.error();
    fabric::NodeEntry* neighbour = find_neighbour(plan.nodes, join->name);
    if (neighbour == nullptr)
      return Error{fmt::format("--join {}: there is no --neighbour {}", text, join->name)};
    if (neighbour->we_join) return Error{fmt::format("--join {}: stands twice", text)};
    neighbour->we_join = true;
    SwitchJoin out;
    out.node = static_cast<size_t>(neighbour - plan.nodes.data());
    out.endpoint.endpoint = join->rest;
    out.endpoint.link = plan.config.link;
    plan.joins.push_back(std::move(out));
  }
  for (const std::string& text : options.neighbour_keys) {
    Result<Named> key = parse_named("--neighbour-key", text, "NAME=FILE");
    if (!key) return key.error();
    const auto at = std::find_if(plan.joins.begin(), plan.joins.end(), [&](const SwitchJoin& join) {
      return plan.nodes[join.node].name == key->name;
    });
    if (at == plan.joins.end())
      return Error{fmt::format("--neighbour-key {}: there is no --join {}", text, key->name)};
    at->endpoint.curve_secret_file = options.curve_secret;
    at->endpoint.curve_server_file = key->rest;
  }
  for (const SwitchJoin& join : plan.joins)
    if (Status good = fabric::check_link_endpoint(join.endpoint); !good) return good;
  return {};
}

/// Keys and endpoints; names and GUIDs of the two tables must agree.
Status plan_zmq(const SwitchOptions& options, SwitchPlan& plan) {
  fabric::ZmqAcceptorConfig& out = plan.zmq;
  out.endpoints = options.listen;
  if (options.curve_secret.empty() && !options.curve_allow.empty())
    return Error{"--curve-allow needs --curve-secret"};
  if (!options.curve_secret.empty() && options.curve_allow.empty() && options.neighbour_keys.empty())
    return Error{"--curve-secret needs --curve-allow, or --neighbour-key to join with"};
  if (Status good = fabric::ZmqAcceptor::check_endpoints(options.listen, !options.curve_allow.empty()); !good)
    return good;
  if (options.curve_allow.empty()) return {};
  Result<fabric::CurveKeyPair> keys = fabric::read_curve_secret(options.curve_secret);
  if (!keys) return keys.error();
  Result<std::vector<fabric::CurveAllowed>> allowed = fabric::read_curve_allow(options.curve_allow);
  if (!allowed) return allowed.error();
  for (const fabric::CurveAllowed& entry : *allowed) {
    const bool known = std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](const fabric::NodeEntry& node) {
      return node.name == entry.name && node.guid == entry.guid;
    });
    if (!known)
      return Error{fmt::format("{}: neither --node nor --neighbour {}={:x}", options.curve_allow, entry.name,
                               entry.guid.value())};
  }
  out.keys = *keys;
  out.allowed = *allowed;
  return {};
}

}  // namespace

void declare_switch_options(CommandLine& line, SwitchOptions& out) {
  declare_node_options(line, out);
  line.texts("node", "NAME=GUID:LID", out.nodes,
             "a node that may join; repeat. Node i gets port i. GUID in hex");
  line.texts(
      "neighbour", "NAME=GUID:LIDS", out.neighbours,
      "a neighbouring switch and the LIDs behind it, with commas; repeat. Ports follow those of the nodes");
  line.texts("join", "NAME=ENDPOINT", out.joins,
             "connects to that neighbour at shm:PATH, ipc://PATH or tcp://HOST:PORT; without, it joins us");
  line.texts("neighbour-key", "NAME=FILE", out.neighbour_keys, "public key of a neighbour that we join");
  line.number("ports", "N", out.ports, 1, fabric::PortSet::kPortsMax - 1,
              "ports; as many as nodes and neighbours unless given");
  line.texts(
      "listen", "ENDPOINT", out.listen,
      "also serve nodes over ZeroMQ at ipc://PATH or tcp://ADDR:PORT; repeat. One endpoint serves all nodes");
  line.text("curve-allow", "FILE", out.curve_allow, "who may join: lines NAME GUIDHEX PUBLICKEY");
  line.flag("cut-through", out.cut_through, "forward a cell before its tail has come");
}

Result<SwitchPlan> plan_switch(const SwitchOptions& options) {
  SwitchPlan plan;
  for (const std::string& text : options.nodes) {
    Result<fabric::NodeEntry> node = parse_node(text);
    if (!node) return node.error();
    plan.nodes.push_back(std::move(*node));
  }
  for (const std::string& text : options.neighbours) {
    Result<fabric::NodeEntry> node = parse_neighbour(text);
    if (!node) return node.error();
    plan.nodes.push_back(std::move(*node));
  }
  fabric::SwitchConfig& config = plan.config;
  config.ports =
      options.ports != 0 ? options.ports : static_cast<uint32_t>(std::max<size_t>(plan.nodes.size(), 1));
  config.link = link_config(options);
  config.link.is_switch = true;
  config.link.cut_through = options.cut_through;
  if (Status fits = fabric::Admission::check(plan.nodes, config.ports); !fits) return fits.error();
  if (Status good = fabric::Switch::check(config); !good) return good.error();
  if (Status good = plan_joins(options, plan); !good) return good.error();
  if (Status good = plan_zmq(options, plan); !good) return good.error();
  return plan;
}

}  // namespace weft::node
