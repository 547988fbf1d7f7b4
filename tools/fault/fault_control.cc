// How it works: a rule for a node of the topology is a rule for its port, because no other node gets that
// port. A rule for a program names the program's GUID. The switch applies it on any port and removes it when
// the program's link ends, so that the next program on that port is not struck. With --node a program's GUID
// is known before the program starts. A program with memory windows gets the rule, too, because no switch
// sees what passes a window.
#include "tools/fault/fault_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/rng.h"
#include "base/words.h"
#include "tools/fault/window_orders.h"
#include "tools/launch/node_names.h"
#include "tools/show/blockers.h"
#include "tools/show/program_list.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {
namespace {

[[nodiscard]] SetFault window_fault(const std::string& name, const WindowFaultState& state) {
  SetFault out{name, {state.id, state.rule, state.matched, state.struck, state.left}, true};
  out.fault.rule.port = kFaultNoPort;
  return out;
}

}  // namespace

std::string SetFault::name() const {
  return fmt::format("{}:{}", node, fault.id);
}

Status FaultControl::look() {
  const auto lids = load_lids(dir_.file("lids"));
  names_ = guest_names(dir_, running_programs(dir_));
  switches_.clear();
  places_.clear();
  doors_.clear();
  for (const RecordedProcess& process : record_.processes) {
    if (process.program != "weft-switch" || !is_running(process.pid, process.start_ticks)) continue;
    Result<control::ControlReply> reply = client_.ask(dir_.file(process.name + ".ctl"), {}, answer_timeout_);
    if (!reply.ok() && is_stopped(process.pid))
      return Error{fmt::format("switch '{}' is frozen and cannot answer; weft fault clear continues it",
                               process.name)};
    if (!reply.ok()) return Error{fmt::format("switch '{}': {}", process.name, reply.error().text)};
    switches_.push_back(process.name);
    for (const control::PortInfo& port : reply.value().info.ports) {
      FaultPlace place{process.name, port.number, port.lid, 0, port.peer};
      for (const auto& [name, lid] : lids)
        if (port.lid != 0 && lid.value() == port.lid) place.peer = name;
      if (const std::optional<uint64_t> guid = guest_guid(port.peer)) {
        place.guid = *guid;
        if (names_.contains(*guid)) place.peer = names_.at(*guid);
      }
      if (place.guid != 0) {
        if (const std::string door = window_door_of(dir_, place.lid); !door.empty())
          doors_[place.peer] = door;
      }
      places_.push_back(std::move(place));
    }
  }
  if (switches_.empty()) return Error{"no switch of this fabric runs"};
  return {};
}

/// The place of a program that has not started, by its name.
Result<FaultPlace> FaultControl::prepared(const std::string& name) {
  std::optional<SpareRecord> spare = home_of(dir_, record_, name);
  if (!spare && record_.spare.empty())
    return Error{fmt::format("no switch has a spare port that '{}' could join", name)};
  if (!spare) spare = record_.spare.front();
  Result<NodeIdentity> identity = node_identity(dir_, record_, *spare, name);
  if (!identity.ok()) return identity.error();
  names_[identity->guid.value()] = name;
  return FaultPlace{spare->node, kFaultNoPort, identity->lid.value(), identity->guid.value(), name};
}

Result<std::vector<FaultPlace>> FaultControl::find(const std::string& target, bool prepare) {
  std::vector<std::string> known = switches_;
  if (std::find(switches_.begin(), switches_.end(), target) != switches_.end())
    return std::vector{FaultPlace{target, 0, 0, 0, {}}};
  std::vector<FaultPlace> found;
  for (const FaultPlace& place : places_) {
    const bool port = target == fmt::format("{}:{}", place.node, place.port);
    const bool named = (place.peer == target && target != kSparePort) || port ||
                       (place.lid != 0 && target == fmt::format("lid:{}", place.lid));
    if (named) found.push_back(place);
    if (port) found.back().guid = 0;  // the rule applies to any endnode at the port
    if (place.lid != 0) known.push_back(place.peer);
  }
  if (!found.empty()) return found;
  if (prepare) {
    Result<FaultPlace> place = prepared(target);
    if (!place.ok()) return place.error();
    return std::vector{*place};
  }
  return Error{
      fmt::format("'{}' is no node, switch, SWITCH:PORT or lid:N{}; --prepare is for a program that "
                  "will start as weft run --node {}",
                  target, choices(target, known), target)};
}

Result<std::vector<control::FaultInfo>> FaultControl::ask(const std::string& node,
                                                          const control::ControlRequest& request) {
  Result<control::ControlReply> reply = client_.ask(dir_.file(node + ".ctl"), request, answer_timeout_);
  if (!reply.ok()) return Error{fmt::format("switch '{}': {}", node, reply.error().text)};
  return reply.value().faults;
}

Result<std::vector<SetFault>> FaultControl::set(FaultOrder order, const std::string& only) {
  if (order.seed == 0) order.seed = SystemRandom().below(1'000'000) + 1;
  Result<FaultRule> rule = fault_rule(order);
  if (!rule.ok()) return rule.error();
  Result<std::vector<FaultPlace>> places = find(order.target, order.prepare);
  if (!places.ok()) return places.error();
  std::vector<SetFault> done;
  notes_.clear();
  for (const FaultPlace& place : places.value()) {
    if (rule->kind == FaultKind::kFailDma) break;  // not of switches
    if (!only.empty() && place.node != only) continue;
    control::ControlRequest request;
    request.action = control::ControlAction::kFaultAdd;
    request.fault = *rule;
    request.fault.port = place.port;
    request.fault.guid = Guid(place.guid);
    Result<std::vector<control::FaultInfo>> faults = ask(place.node, request);
    if (faults.ok() && !faults->empty()) {
      done.push_back({place.node, faults->back()});
      continue;
    }
    for (const SetFault& one : done) static_cast<void>(clear(one.node, one.fault.id));
    return faults.ok() ? Error{fmt::format("switch '{}' did not set the fault", place.node)} : faults.error();
  }
  if (only.empty()) {
    if (Status struck = strike_windows(places.value(), *rule, done); !struck) return struck.error();
  }
  return done;
}

/// A rule that means nothing for windows stays one of the switch; a note says so.
Status FaultControl::strike_windows(const std::vector<FaultPlace>& places, const FaultRule& rule,
                                    std::vector<SetFault>& done) {
  const bool alone = rule.kind == FaultKind::kFailDma;
  for (const FaultPlace& place : places) {
    const auto door = doors_.find(place.peer);
    if (place.guid == 0 || door == doors_.end()) continue;
    Result<WindowOrderReply> reply =
        order_windows(door->second, {WindowOrderAction::kAdd, 0, rule}, answer_timeout_);
    if (reply.ok() && !reply->rules.empty()) {
      done.push_back(window_fault(place.peer, reply->rules.back()));
      continue;
    }
    const std::string why = reply.ok() ? "it did not set the fault" : reply.error().text;
    if (alone) return Error{fmt::format("memory windows of '{}': {}", place.peer, why)};
    notes_.push_back(fmt::format("the memory windows of {} are not struck: {}", place.peer, why));
  }
  if (alone && done.empty())
    return Error{fmt::format(
        "{} strikes the memory windows of a running program, as of weft run --direct; here are none",
        to_string(rule.kind))};
  return {};
}

std::vector<std::string> FaultControl::programs() const {
  std::vector<std::string> out;
  for (const auto& [name, door] : doors_) out.push_back(name);
  return out;
}

Result<std::vector<SetFault>> FaultControl::list_of(const std::string& node) {
  control::ControlRequest request;
  request.action = control::ControlAction::kFaultList;
  Result<std::vector<control::FaultInfo>> faults = ask(node, request);
  if (!faults.ok()) return faults.error();
  std::vector<SetFault> out;
  for (control::FaultInfo& fault : faults.value()) out.push_back({node, fault});
  return out;
}

Result<std::vector<SetFault>> FaultControl::list() {
  std::vector<SetFault> out;
  for (const std::string& node : switches_) {
    Result<std::vector<SetFault>> faults = list_of(node);
    if (!faults.ok()) return faults.error();
    out.insert(out.end(), faults->begin(), faults->end());
  }
  for (const auto& [name, door] : doors_) {
    // A program that is stopped, or has ended, has no faults to tell.
    Result<WindowOrderReply> reply = order_windows(door, {}, answer_timeout_);
    for (const WindowFaultState& one : reply.ok() ? reply->rules : std::vector<WindowFaultState>{})
      out.push_back(window_fault(name, one));
  }
  return out;
}

Status FaultControl::clear(const std::string& node, uint32_t id) {
  if (const auto door = doors_.find(node); door != doors_.end()) {
    Result<WindowOrderReply> reply =
        order_windows(door->second, {WindowOrderAction::kClear, id, {}}, answer_timeout_);
    return reply.ok() ? Status{} : Status{Error{fmt::format("program '{}': {}", node, reply.error().text)}};
  }
  control::ControlRequest request;
  request.action = control::ControlAction::kFaultClear;
  request.fault_id = id;
  Result<std::vector<control::FaultInfo>> left = ask(node, request);
  return left.ok() ? Status{} : Status{left.error()};
}

std::string FaultControl::at(const SetFault& one) const {
  const std::string& node = one.node;
  const FaultRule& rule = one.fault.rule;
  if (one.windows) return fmt::format("the memory windows of {}", node);
  const auto name = names_.find(rule.guid.value());
  if (rule.guid != Guid{} && rule.port == kFaultNoPort)
    return fmt::format("{} ({}, which has not joined)", node,
                       name == names_.end() ? fmt::format("guid {:016x}", rule.guid.value()) : name->second);
  if (rule.port == kFaultEveryPort) return node;
  const auto place = std::find_if(places_.begin(), places_.end(), [&](const FaultPlace& known) {
    return known.node == node && known.port == rule.port;
  });
  const bool named = place != places_.end() && !place->peer.empty();
  return named ? fmt::format("{}:{} ({})", node, rule.port, place->peer)
               : fmt::format("{}:{}", node, rule.port);
}

std::string FaultControl::describe(const SetFault& one) const {
  return fmt::format("fault {} at {}: {}", one.name(), at(one), describe_fault(one.fault.rule));
}

}  // namespace weft::tools
