// How it works: a frame that a station handed over while its session was open must arrive. It may be missing
// at the end only if the session left its open state, or one of its nodes died, after that. A session may
// leave its open state only for a reason: a dead node, a cut link, cells lost above the links, its own close,
// a path that was dead for almost the longest allowed silence, or, without acknowledgements, a link that was
// reset.
#include "sim/frames/session_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

/// Longest silence that a session must survive: less than its limit of 1.5 s, because the keepalive interval
/// counts too (decisions 2.13).
constexpr Duration kWatchPatience = 900ms;
constexpr Duration kGapPatience = fabric::kOutputStandstill * 4 / 5;
/// Time that a slow host may certainly take, less than kSlowHostMax.
constexpr Duration kSlowHostPatience = 400ms;

FrameSource source_of(const SessionPlan& plan, uint32_t flow, uint32_t frames) {
  FrameSource source;
  source.flow = flow;
  source.frames = frames;
  source.bytes_min = plan.bytes_min;
  source.bytes_max = plan.bytes_max;
  source.gap = plan.gap;
  return source;
}

/// Sum over all incarnations.
uint64_t missed_packets(session::NetdevSession& session) {
  return session.channel_counters(0).get(adapter::QpCounter::kMissedPackets) +
         session.channel_counters(1).get(adapter::QpCounter::kMissedPackets);
}

}  // namespace

SessionWatch::SessionWatch(const SessionPlan& plan, const WorldParts& parts, size_t host_index)
    : plan_(plan),
      world_(parts.plan),
      host_index_(host_index),
      ledger_(parts.ledger),
      trace_(parts.trace),
      saboteur_(parts.saboteur),
      changes_(plan.changes),
      close_due_(plan.close_at != kNever) {
  const std::string name = fmt::format("host {} <-> unit {}", plan.host_node, plan.unit_node);
  flows_[0] = ledger_.add_flow({host_mac(plan), lan_mac(plan), name + " out"});
  flows_[1] = ledger_.add_flow({lan_mac(plan), host_mac(plan), name + " in"});
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const ConfigChange& a, const ConfigChange& b) { return a.at < b.at; });
}

void SessionWatch::join(FrameStation& os, FrameStation& nic) {
  os_ = &os;
  nic_ = &nic;
  os.add_source(source_of(plan_, flows_[0], plan_.frames[0]));
  os.add_sink(flows_[1]);
  os.set_reader_pause(plan_.reader_pause[1]);
  nic_source_ = nic.sources().size();
  nic.add_source(source_of(plan_, flows_[1], plan_.frames[1]));
  nic.add_sink(flows_[0]);
  nic.set_reader_pause(plan_.reader_pause[0]);
}

session::NetdevSession* SessionWatch::at_host(const SessionNodes& nodes) const {
  if (nodes.host == nullptr) return nullptr;
  session::NetdevSession& session = nodes.host->session(host_index_);
  return session.state() == session::SessionState::kOpen ? &session : nullptr;
}

session::NetdevSession* SessionWatch::at_unit(const SessionNodes& nodes) const {
  if (nodes.unit == nullptr) return nullptr;
  return nodes.unit->session_with(Lid(static_cast<uint16_t>(plan_.host_node)));
}

// ---- events

void SessionWatch::node_died(uint32_t node, Instant now) {
  reason_ = true;
  excuse(now);
  if (node != plan_.host_node) return;
  // A restarted host begins with the address of its configuration.
  use_address(host_mac(plan_));
  mac_turn_ = 0;
  settling_ = closing_ = false;
}

void SessionWatch::link_changed(uint32_t link, bool switch_death) {
  if (!world_.fabric.on_path(link, plan_.host_node, plan_.unit_node)) return;
  if (!switch_death || plan_.mode == TransferMode::kSendReceive) reason_ = true;
  if (!switch_death && link + 1 != plan_.unit_node) cut_ = true;
}

void SessionWatch::observe(const SessionNodes& nodes, Instant now) {
  session::NetdevSession* host = at_host(nodes);
  const bool reopened = host != nullptr && (!host_end_.open || host->incarnation() != host_end_.incarnation);
  note(host_end_, host, "host", now);
  note(unit_end_, at_unit(nodes), "unit", now);
  if (reopened && mac_turn_ != 0) settling_ = true;  // the opening names the configured address
  if (settling_ && host != nullptr && nodes.host->driver(host_index_).controller().settled()) {
    settling_ = false;
    excuse(now);
  }
  os_->sources().front().open = host_end_.open && !settling_;
  nic_->sources()[nic_source_].open = unit_end_.open && !settling_;
}

void SessionWatch::note(End& end, session::NetdevSession* session, std::string_view role, Instant now) {
  const bool open = session != nullptr;
  const uint64_t incarnation = open ? session->incarnation() : 0;
  if (open == end.open && (!open || incarnation == end.incarnation)) return;
  trace_.event(now, TraceKind::kSessionState, flows_[0] | (&end == &unit_end_ ? 1U << 8 : 0), open ? 1 : 0,
               incarnation);
  if (end.open) {
    if (!may_be_lost(end, now)) {
      ledger_.violation(now, fmt::format("session host {} <-> unit {} was lost at the {} without a reason",
                                         plan_.host_node, plan_.unit_node, role));
    }
    excuse(now);
  }
  end = {open, incarnation, now, open ? missed_packets(*session) : 0};
  // Once both ends are open again, another loss needs another reason.
  if (host_end_.open && unit_end_.open) reason_ = false;
}

bool SessionWatch::may_be_lost(const End& end, Instant now) const {
  // Without acknowledgements a session ends with the first cell that a switch drops because a node stands
  // still.
  const Duration patience = plan_.mode == TransferMode::kSendReceive ? kGapPatience : kWatchPatience;
  if (reason_ || world_.hindered(plan_.host_node, plan_.unit_node, end.since, now) >= patience) return true;
  return std::any_of(world_.faults.begin(), world_.faults.end(), [now](const FaultWindow& window) {
    return window.layer == FaultLayer::kCell && window.begin <= now;
  });
}

void SessionWatch::slow_host(Instant now) {
  const Instant since = host_end_.open ? host_end_.since : Instant{};
  if (cut_ || world_.hindered(plan_.host_node, plan_.unit_node, since, now) >= kSlowHostPatience) excuse(now);
}

void SessionWatch::excuse(Instant now) {
  for (uint32_t flow : flows_) ledger_.excuse(flow, now);
}

// ---- requests of the host

bool SessionWatch::act(const SessionNodes& nodes, Instant now) {
  bool touched = false;
  session::NetdevSession* open = at_host(nodes);
  for (; next_change_ < changes_.size() && changes_[next_change_].at <= now; ++next_change_) {
    if (open == nullptr) continue;
    apply(changes_[next_change_], *nodes.host, now);
    touched = true;
  }
  if (close_due_ && plan_.close_at <= now) {
    close_due_ = false;
    if (open != nullptr) {
      reason_ = closing_ = touched = true;
      open->close();
    }
  }
  if (closing_ && nodes.host != nullptr &&
      nodes.host->session(host_index_).state() == session::SessionState::kIdle) {
    closing_ = false;
    touched = true;
    nodes.host->driver(host_index_).open();
  }
  return touched;
}

Instant SessionWatch::deadline() const noexcept {
  const Instant close = close_due_ ? plan_.close_at : kNever;
  return next_change_ < changes_.size() ? std::min(close, changes_[next_change_].at) : close;
}

void SessionWatch::apply(const ConfigChange& change, HostNode& host, Instant now) {
  host::NicController& controller = host.driver(host_index_).controller();
  NicFilters filters = controller.settings().filters;
  switch (change.kind) {
    case ConfigChangeKind::kMtu:  // never less than the frames need
      return controller.set_mtu(
          std::max(mtu_of(plan_), controller.settings().mtu_bytes == 9000 ? 0U : 9000U));
    case ConfigChangeKind::kMac: {
      MacAddress mac = host_mac(plan_);
      mac[2] = ++mac_turn_;
      controller.set_mac(mac);
      use_address(mac);
      settling_ = true;
      return excuse(now);
    }
    case ConfigChangeKind::kPromiscuous:  // units here refuse it
      filters.promiscuous = !filters.promiscuous;
      return controller.set_filters(filters);
    case ConfigChangeKind::kMulticast:
      filters.all_multicast = !filters.all_multicast;
      return controller.set_filters(filters);
    case ConfigChangeKind::kFeatures:
      return controller.set_features(controller.settings().features == kOffloadsAll ? Offload::kNone
                                                                                    : kOffloadsAll);
    case ConfigChangeKind::kReadStatistics:
      return controller.read_statistics();
    case ConfigChangeKind::kClearStatistics:
      return controller.clear_statistics();
  }
}

void SessionWatch::use_address(const MacAddress& mac) {
  ledger_.set_addresses(flows_[0], mac, lan_mac(plan_));
  ledger_.set_addresses(flows_[1], lan_mac(plan_), mac);
}

// ---- invariants between the two ends

/// Sums of both ends while they are open in the same session; false otherwise.
bool SessionWatch::sums(const SessionNodes& nodes, Instant now, session::SessionConservation& host,
                        session::SessionConservation& unit) const {
  session::NetdevSession* h = at_host(nodes);
  session::NetdevSession* u = at_unit(nodes);
  if (h == nullptr || u == nullptr || h->peer().nonce != u->peer().nonce) return false;
  host = h->conservation();
  unit = u->conservation();
  if (saboteur_ != nullptr) {
    saboteur_->on_session_sums(session::SessionRole::kHost, now, host);
    saboteur_->on_session_sums(session::SessionRole::kUnit, now, unit);
  }
  return true;
}

/// An end must not know more free elements of its peer than the peer has exposed; otherwise an element was
/// announced twice.
void SessionWatch::check(const SessionNodes& nodes, Instant now) {
  if (plan_.mode == TransferMode::kSendReceive) {
    check_gaps(host_end_, at_host(nodes), "host", now);
    check_gaps(unit_end_, at_unit(nodes), "unit", now);
  }
  session::SessionConservation host;
  session::SessionConservation unit;
  if (!sums(nodes, now, host, unit)) return;
  if (host.peer_free <= unit.own_exposed && unit.peer_free <= host.own_exposed) return;
  violation("elements announced twice", host, unit, now);
}

/// Without acknowledgements a missing cell is not sent again, so the session must end (decisions 2.19).
void SessionWatch::check_gaps(const End& end, session::NetdevSession* session, std::string_view role,
                              Instant now) {
  const bool same = end.open && session != nullptr && session->incarnation() == end.incarnation;
  if (!same || missed_packets(*session) == end.missed) return;
  ledger_.violation(now, fmt::format("session host {} <-> unit {} goes on at the {} after a gap",
                                     plan_.host_node, plan_.unit_node, role));
}

bool SessionWatch::at_rest(const SessionNodes& nodes, Instant now) const {
  session::SessionConservation host;
  session::SessionConservation unit;
  if (!sums(nodes, now, host, unit)) return true;
  return nodes.host->driver(host_index_).controller().settled() && host.peer_free == unit.own_exposed &&
         unit.peer_free == host.own_exposed && host.own_exposed == host.own_elements &&
         unit.own_exposed == unit.own_elements;
}

void SessionWatch::check_at_rest(const SessionNodes& nodes, Instant now) {
  session::SessionConservation host;
  session::SessionConservation unit;
  if (!sums(nodes, now, host, unit)) return;
  if (!at_rest(nodes, now)) return violation("elements or answers are missing at rest", host, unit, now);
  const std::string wrong = disagreement(nodes);
  if (!wrong.empty()) violation(wrong, host, unit, now);
}

std::string SessionWatch::disagreement(const SessionNodes& nodes) const {
  host::HostNetdev& driver = nodes.host->driver(host_index_);
  const host::NicController& controller = driver.controller();
  const host::NicSettings& wanted = controller.settings();
  const iou::UnitClient* client = nodes.unit->client_of(*at_unit(nodes));
  if (client == nullptr) return "the unit's driver does not serve it";
  if (!driver.carrier() || !client->link_known) return "the host's interface has no carrier";
  if (client->mac != wanted.mac) return "the unit has another address of the host";
  if (client->mtu_bytes != wanted.mtu_bytes) return "the unit has another MTU of the host";
  if (client->features != controller.granted()) return "the unit has other features of the host";
  NicFilters filters = wanted.filters;
  filters.promiscuous = false;  // it is refused; the other filters were asked for again
  if (client->filters != filters || controller.filters() != filters) return "the unit has other filters";
  return {};
}

void SessionWatch::violation(std::string_view what, const session::SessionConservation& host,
                             const session::SessionConservation& unit, Instant now) {
  ledger_.violation(
      now,
      fmt::format("session host {} <-> unit {}: {}: the host has {} of {} exposed and knows {} free ones, "
                  "the unit has {} of {} and knows {}",
                  plan_.host_node, plan_.unit_node, what, host.own_exposed, host.own_elements, host.peer_free,
                  unit.own_exposed, unit.own_elements, unit.peer_free));
}

}  // namespace weft::sim
