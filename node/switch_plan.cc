#include "node/switch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "fabric/carrier/curve_keys.h"
#include "node/process.h"

namespace weft::node {
namespace {

static_assert(kSwitchPortsMax == fabric::Switch::kPortsMax);
static_assert(kLaneTableMax == fabric::kVlTableEntriesMax && kHighLimitNone == fabric::kVlHighLimitNone);

Status plan_joins(const SwitchSpec& spec, SwitchPlan& plan) {
  for (size_t i = 0; i < spec.neighbours.size(); ++i) {
    const NeighbourSpec& neighbour = spec.neighbours[i];
    if (neighbour.endpoint.empty()) continue;
    SwitchJoin out;
    out.node = spec.nodes.size() + i;
    out.endpoint.endpoint = neighbour.endpoint;
    out.endpoint.link = plan.config.link;
    out.endpoint.silence = spec.links.silence;
    if (!neighbour.key.empty()) {
      out.endpoint.curve_secret_file = spec.curve_secret;
      out.endpoint.curve_server_file = neighbour.key;
    }
    if (Status good = fabric::check_link_endpoint(out.endpoint); !good) return good;
    plan.joins.push_back(std::move(out));
  }
  return {};
}

/// The arbitration tables of each output; empty if all lanes get the same share.
fabric::VlArbitration plan_lanes(const LaneOrder& order, uint32_t lanes) {
  fabric::VlArbitration out;
  if (order.high.empty() && order.low.empty()) return out;
  const auto add = [](std::vector<fabric::VlWeight>& table, const std::vector<LaneWeight>& entries) {
    for (const LaneWeight& entry : entries)
      table.push_back({VirtualLane(static_cast<uint8_t>(entry.lane)), static_cast<uint8_t>(entry.weight)});
  };
  add(out.high, order.high);
  add(out.low, order.low);
  if (order.low.empty()) {
    for (const fabric::VlWeight& entry : fabric::equal_arbitration(lanes).low) {
      const auto is_lane = [&entry](const fabric::VlWeight& high) { return high.vl == entry.vl; };
      if (std::none_of(out.high.begin(), out.high.end(), is_lane)) out.low.push_back(entry);
    }
  }
  out.high_limit = static_cast<uint8_t>(order.high_limit);
  return out;
}

/// Checks a key that belongs to no listed node.
Status check_guest(const std::string& name, const SwitchSpec& spec, const SwitchPlan& plan) {
  for (const fabric::NodeEntry& node : plan.nodes) {
    if (node.name == name)
      return Error{fmt::format("{}: {} is a node: give its GUID", spec.curve_allow, name)};
  }
  if (plan.spare.ports != 0) return {};
  return Error{fmt::format("{}: {} has no GUID, and there is no spare port to join", spec.curve_allow, name)};
}

/// Keys and endpoints; names and GUIDs of the two tables must agree.
Status plan_zmq(const SwitchSpec& spec, SwitchPlan& plan) {
  fabric::ZmqAcceptorConfig& out = plan.zmq;
  out.endpoints = spec.listen;
  out.silence = spec.links.silence;
  const bool joins_with_key = std::any_of(spec.neighbours.begin(), spec.neighbours.end(),
                                          [](const NeighbourSpec& n) { return !n.key.empty(); });
  if (spec.curve_secret.empty() && !spec.curve_allow.empty())
    return Error{"--curve-allow needs --curve-secret"};
  if (!spec.curve_secret.empty() && spec.curve_allow.empty() && !joins_with_key)
    return Error{"--curve-secret needs --curve-allow, or --neighbour-key to join with"};
  if (Status good = fabric::ZmqAcceptor::check_endpoints(spec.listen, !spec.curve_allow.empty()); !good)
    return good;
  if (spec.curve_allow.empty()) return {};
  Result<fabric::CurveKeyPair> keys = fabric::read_curve_secret(spec.curve_secret);
  if (!keys) return keys.error();
  Result<std::vector<fabric::CurveAllowed>> allowed = fabric::read_curve_allow(spec.curve_allow);
  if (!allowed) return allowed.error();
  for (const fabric::CurveAllowed& entry : *allowed) {
    if (entry.guid == Guid{}) {
      if (Status fits = check_guest(entry.name, spec, plan); !fits) return fits;
      continue;
    }
    const bool known = std::any_of(plan.nodes.begin(), plan.nodes.end(), [&](const fabric::NodeEntry& node) {
      return node.name == entry.name && node.guid == entry.guid;
    });
    if (!known)
      return Error{fmt::format("{}: neither --node nor --neighbour {}={:x}", spec.curve_allow, entry.name,
                               entry.guid.value())};
  }
  out.keys = *keys;
  out.allowed = *allowed;
  return {};
}

}  // namespace

Result<SwitchPlan> plan_switch(const SwitchSpec& spec) {
  SwitchPlan plan;
  for (const SwitchNodeSpec& node : spec.nodes) plan.nodes.push_back({node.name, node.guid, node.lid});
  for (const NeighbourSpec& neighbour : spec.neighbours)
    plan.nodes.push_back(
        {neighbour.name, neighbour.guid, kLidNone, neighbour.beyond, !neighbour.endpoint.empty()});
  fabric::SwitchConfig& config = plan.config;
  plan.spare.ports = spec.spare_ports;
  plan.spare.first_lid = spec.spare_lid;
  plan.spare.lids = spec.spare_lids;
  config.ports = spec.ports;
  if (config.ports == 0)
    config.ports = std::max(static_cast<uint32_t>(plan.nodes.size()) + spec.spare_ports, 1U);
  config.link = link_config(spec);
  config.link.is_switch = true;
  config.link.cut_through = spec.cut_through;
  config.arbitration = plan_lanes(spec.lane_order, spec.links.lanes);
  if (Status fits = fabric::Admission::check(plan.nodes, config.ports, plan.spare); !fits)
    return fits.error();
  if (Status good = fabric::Switch::check(config); !good) return good.error();
  if (Status good = plan_joins(spec, plan); !good) return good.error();
  if (Status good = plan_zmq(spec, plan); !good) return good.error();
  return plan;
}

}  // namespace weft::node
