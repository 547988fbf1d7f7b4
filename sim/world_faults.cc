// Faults of a world: the plan's windows, cuts and crashes as events in the order of time.
#include <fmt/format.h>

#include <algorithm>

#include "sim/world.h"

namespace weft::sim {

void World::plan_events() {
  for (uint32_t i = 0; i < plan_.faults.size(); ++i) {
    events_.push_back({plan_.faults[i].begin, EventKind::kFaults, i});
    events_.push_back({plan_.faults[i].end, EventKind::kFaults, i});
  }
  for (const CutWindow& cut : plan_.cuts) {
    events_.push_back({cut.begin, EventKind::kCut, cut.link});
    events_.push_back({cut.end, EventKind::kMend, cut.link});
  }
  for (const Crash& crash : plan_.crashes) {
    // A second port dies before its adapter and comes back after it.
    const std::vector<uint32_t> nodes = plan_.fabric.nodes_of_adapter(crash.node);
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      events_.push_back({crash.at, EventKind::kCrash, *node});
    for (uint32_t node : nodes) events_.push_back({crash.back_at, EventKind::kRestart, node});
  }
  for (const Freeze& freeze : plan_.freezes) {
    for (uint32_t node : plan_.fabric.nodes_of_adapter(freeze.node)) {
      events_.push_back({freeze.at, EventKind::kFreeze, node});
      events_.push_back({freeze.until, EventKind::kThaw, node});
    }
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
}

void World::run_events() {
  for (; next_event_ < events_.size() && events_[next_event_].at <= now_; ++next_event_) {
    const Event& event = events_[next_event_];
    if (event.kind != EventKind::kFaults && !happens(event.kind)) continue;
    switch (event.kind) {
      case EventKind::kFaults:
        apply_faults(plan_.faults[event.index]);
        break;
      case EventKind::kCut:
        apply_cut(event.index, true);
        break;
      case EventKind::kMend:
        apply_cut(event.index, false);
        break;
      case EventKind::kCrash:
        if (deaths_[event.index]++ == 0) die(event.index);
        break;
      case EventKind::kRestart:
        if (--deaths_[event.index] == 0) come_back(event.index);
        break;
      case EventKind::kFreeze:
        if (freezes_[event.index]++ == 0) apply_freeze(event.index, true);
        break;
      case EventKind::kThaw:
        if (--freezes_[event.index] == 0) apply_freeze(event.index, false);
        break;
    }
  }
}

/// False if a saboteur suppresses such events.
bool World::happens(EventKind kind) noexcept {
  if (saboteur_ == nullptr) return true;
  switch (kind) {
    case EventKind::kCut:
    case EventKind::kMend:
      return saboteur_->lets_happen(WorldFault::kCut);
    case EventKind::kCrash:
    case EventKind::kRestart:
      return saboteur_->lets_happen(WorldFault::kCrash);
    case EventKind::kFreeze:
    case EventKind::kThaw:
      return saboteur_->lets_happen(WorldFault::kFreeze);
    case EventKind::kFaults:
      break;
  }
  return true;
}

/// A window begins or ends. Of several windows on one direction of a link the last one applies; a cut in any
/// of them applies.
void World::apply_faults(const FaultWindow& changed) {
  fabric::FaultRates rates;
  for (const FaultWindow& window : plan_.faults) {
    const bool same = window.layer == changed.layer && window.link == changed.link &&
                      (window.layer == FaultLayer::kCell || window.from_end == changed.from_end);
    if (!same || now_ < window.begin || now_ >= window.end) continue;
    const bool cut = rates.cut || window.rates.cut;
    rates = window.rates;
    rates.cut = cut;
  }
  const WorldFault kind = changed.layer == FaultLayer::kFlit ? WorldFault::kFlits : WorldFault::kCells;
  if (saboteur_ != nullptr) {
    if (!saboteur_->lets_happen(kind)) return;
    saboteur_->change_rates(kind, rates);
  }
  trace_.event(now_, TraceKind::kFaults, changed.link << 1 | changed.from_end,
               static_cast<uint64_t>(changed.layer), rates.drop_ppm);
  if (changed.layer == FaultLayer::kFlit) {
    fabric_.cable(changed.link).set_faults(changed.from_end, rates);
  } else {
    endnodes_[changed.link]->set_cell_faults(rates);
  }
}

void World::apply_cut(uint32_t link, bool on) {
  trace_.event(now_, on ? TraceKind::kLinkCut : TraceKind::kLinkMended, link);
  const bool carried = fabric_.cable(link).plugged();
  fabric_.cut(link, on);
  wire(link);
  if (carried && fabric_.cable(link).end(0).state() != fabric::LinkState::kUp) ++effects_.links_cut;
  rewired_ = true;
}

void World::apply_freeze(uint32_t node, bool on) {
  trace_.event(now_, on ? TraceKind::kNodeFreeze : TraceKind::kNodeThaw, node);
  turns_.freeze(node, on);
  scenario_->freeze(node, on, now_);
}

/// A node dies without a message to its peers.
void World::die(uint32_t node) {
  trace_.event(now_, TraceKind::kNodeCrash, node);
  check_counters(node);
  if (plan_.fabric.is_switch(node)) {
    fabric_.crash_switch(node == kSwitchNode ? 0 : 1);
  } else {
    scenario_->crash(node, now_);
    endnodes_[node - 1]->end_life();
    fabric_.set_endnode_alive(node - 1, false);
  }
  if (!turns_.alive(node)) ++effects_.nodes_died;
  wire_all();
}

void World::come_back(uint32_t node) {
  trace_.event(now_, TraceKind::kNodeStart, node, ++lives_[node]);
  if (plan_.fabric.is_switch(node)) {
    fabric_.start_switch(node == kSwitchNode ? 0 : 1);
  } else {
    endnodes_[node - 1]->begin_life(*scenario_, node, lives_[node], now_);
    fabric_.set_endnode_alive(node - 1, true);
  }
  if (lives_[node] > 1 && turns_.alive(node)) ++effects_.nodes_returned;
  turns_.wake(node);
  wire_all();
}

void World::wire_all() {
  rewired_ = true;
  for (uint32_t link = 0; link < fabric_.links(); ++link) wire(link);
}

void World::wire(uint32_t link) {
  const LinkRefusal refusal = fabric_.wire(link, now_);
  if (refusal == LinkRefusal::kNone) return;
  ledger_.violation(now_, fmt::format("link {} refused: {}", link, weft::to_string(refusal)));
}

}  // namespace weft::sim
