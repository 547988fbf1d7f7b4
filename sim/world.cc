// How it works: every object of a node dies with the node; cables, ledger and scenario stand outside. A turn
// polls the awake nodes in random order (a node may miss its turn), lets the scenario work, and checks the
// invariants. After a turn with work, time advances by a random small step; after one without, it jumps to
// the next deadline or event. Traffic runs until all planned traffic has been offered, the last fault is over
// and a new message has arrived on every flow. Then the world drains and rests, and every frame and credit
// must be accounted for.
#include "sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "sim/cell_scenario.h"
#include "sim/fabric_checks.h"
#include "sim/frames/netdev_scenario.h"
#include "sim/planned_fabric.h"
#include "sim/raw/raw_scenario.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kLateTurnsMax = 5'000;
constexpr Duration kRestTime = 50ms;
constexpr Duration kQuietTime = 1ms;  // time after the last keepalive before the world is at rest
constexpr uint64_t kTurnsMax = 2'000'000;
/// One world in four then stays idle for this time: keepalives, probes and grace times must not change its
/// state.
constexpr Duration kIdleTime = 5200ms;
constexpr uint64_t kIdleOneIn = 4;
constexpr Instant kIdleLatest{4s};  // so that a run ends within 10 s

}  // namespace

World::World(const WorldPlan& plan, const WorldOutput& output, Saboteur* saboteur)
    : plan_(plan),
      saboteur_(saboteur),
      trace_(output.trace, output.flits),
      ledger_(trace_, saboteur),
      counter_check_(plan_, ledger_, effects_),
      random_(plan.seed ^ 0x1111),
      link_random_(plan.seed ^ 0x2222),
      traffic_random_(plan.seed ^ 0x3333),
      fabric_(fabric_of(plan_.fabric, *this), link_random_),
      scenario_(make_scenario()),
      turns_(random_, plan.skip_ppm),
      deaths_(plan.fabric.nodes()),
      freezes_(plan.fabric.nodes()),
      lives_(plan.fabric.nodes()),
      link_news_(plan.fabric.links()) {
  turns_.add(std::make_unique<SimSwitch>(fabric_, 0));
  for (uint32_t link = 0; link < plan_.fabric.endnodes; ++link) {
    auto node = std::make_unique<SimEndnode>(fabric_.cable(link), link_random_, saboteur_);
    endnodes_.push_back(node.get());
    turns_.add(std::move(node));
  }
  if (plan_.fabric.switches() > 1) turns_.add(std::make_unique<SimSwitch>(fabric_, 1));
  plan_events();
  for (uint32_t index = 0; index < fabric_.switches(); ++index) come_back(plan_.fabric.switch_node(index));
  for (uint32_t node = 1; node <= plan_.fabric.endnodes; ++node) come_back(node);
}

World::~World() = default;

std::unique_ptr<Scenario> World::make_scenario() {
  const WorldParts parts{plan_, ledger_, counter_check_, trace_, traffic_random_, saboteur_};
  switch (plan_.traffic) {
    case Traffic::kCells:
      return make_cell_scenario(parts);
    case Traffic::kRaw:
      return make_raw_scenario(parts);
    case Traffic::kNetdev:
      return make_netdev_scenario(parts);
    case Traffic::kAny:
    case Traffic::kCount:
      break;
  }
  WEFT_CHECK(false, "the plan names no traffic");
}

WorldResult World::run() {
  while (phase_ != Phase::kOver && ledger_.violations().empty()) {
    run_events();
    if (std::exchange(rewired_, false)) tell_link_news(~0U);  // a reset may end things in this very turn
    const int work = take_turn();
    tell_link_news(turns_.polled());
    check_invariants();
    change_phase(work);
    advance(work);
    if (++turn_count_ == kTurnsMax) ledger_.violation(now_, "the run does not end");
  }
  finish();
  return result();
}

int World::take_turn() {
  int work = turns_.take(now_);
  const uint32_t touched = scenario_->step(turns_.polled(), now_);
  for (uint32_t node = 0; node < turns_.nodes(); ++node) {
    if ((touched >> node & 1) == 0) continue;
    turns_.wake(node);
    ++work;
  }
  // Published flits wake the other end, even if poll() of the sender returned 0.
  if (flits_ != std::exchange(flits_seen_, flits_)) ++work;
  return work;
}

/// Tells the scenario about links that one of these nodes may have changed.
void World::tell_link_news(uint32_t nodes) {
  for (uint32_t link = 0; link < fabric_.links(); ++link) {
    if ((nodes & plan_.fabric.nodes_of(link)) == 0) continue;
    LinkNews& news = link_news_[link];
    const bool up = fabric_.carries(link);
    const uint64_t incarnation = fabric_.cable(link).end(0).incarnation();
    if (up == news.up && incarnation == news.incarnation) continue;
    news = {up, incarnation};
    scenario_->link_change(link, up, fabric_.switch_is_dead(link), now_);
  }
}

void World::violation(std::string_view who, uint32_t number, const std::string& what) {
  if (!what.empty()) ledger_.violation(now_, fmt::format("{} {}: {}", who, number, what));
}

/// Only nodes that ran in this turn are checked; the others are unchanged.
void World::check_invariants() {
  const uint32_t polled = turns_.polled();
  if (turns_.late_in_a_row() >= kLateTurnsMax) late_violation();
  for (uint32_t index = 0; index < fabric_.switches(); ++index) {
    if ((turns_.worked() >> plan_.fabric.switch_node(index) & 1) == 0) continue;
    const fabric::Switch* core = fabric_.switch_at(index);
    if (core == nullptr) continue;
    SwitchCells cells = count_switch_cells(*core);
    if (saboteur_ != nullptr) saboteur_->on_switch_cells(cells);
    violation("switch", index, check_switch_cells(cells));
  }
  for (uint32_t link = 0; link < fabric_.links(); ++link) {
    if ((polled & plan_.fabric.nodes_of(link)) == 0) continue;
    violation("link", link, check_credits(fabric_.cable(link), plan_.fabric.lanes));
  }
  scenario_->check(turns_.worked(), now_);
}

Instant World::next_deadline() const {
  Instant due = std::min(scenario_->deadline(), turns_.next_deadline());
  if (next_event_ < events_.size()) due = std::min(due, events_[next_event_].at);
  return std::min(due, phase_limit_);
}

void World::advance(int work) {
  const auto spread = static_cast<uint64_t>((plan_.step_max - plan_.step_min).count());
  const Duration step = plan_.step_min + Duration(static_cast<int64_t>(random_.below(spread + 1)));
  const Instant due = work != 0 ? now_ : next_deadline();
  if (work != 0 || due > now_) {
    idle_turns_ = 0;
    now_ = work != 0 ? now_ + step : due == kNever ? now_ + 1ms : due;
    return;
  }
  now_ += step;
  if (++idle_turns_ == kLateTurnsMax) late_violation();
}

void World::late_violation() {
  ledger_.violation(now_, "an object has a deadline in the past and does not act on it");
}

void World::change_phase(int work) {
  switch (phase_) {
    case Phase::kTraffic: {
      const Instant faults_end = plan_.faults_end();
      if (phase_limit_ == kNever) phase_limit_ = faults_end + kRecoveryTime;
      const bool offered = trickling_ || scenario_->finished();
      if (offered && !std::exchange(trickling_, true)) {
        scenario_->trickle(now_);
        for (uint32_t node = 0; node < turns_.nodes(); ++node) turns_.wake(node);
      }
      if (now_ < phase_limit_ && (!offered || now_ < faults_end || !scenario_->recovered(faults_end))) return;
      if (now_ >= phase_limit_ && !scenario_->recovered(faults_end)) {
        ledger_.violation(now_, "nothing new has passed on every flow within 5 s of the last fault");
      }
      scenario_->stop(now_);
      phase_ = Phase::kDrain;
      phase_limit_ = now_ + kDrainTime;
      return;
    }
    case Phase::kDrain:
      if (!scenario_->drained() && now_ < phase_limit_) return;
      if (!scenario_->drained()) {
        ledger_.settle(now_);
        ledger_.violation(now_, "not drained within 2 s");
      }
      phase_ = Phase::kRest;
      phase_limit_ = now_ + kRestTime;
      rest_limit_ = now_ + kRecoveryTime;
      idles_ = plan_.seed % kIdleOneIn == 0 && now_ < kIdleLatest;
      return;
    case Phase::kRest:
      if (work != 0) phase_limit_ = std::max(phase_limit_, now_ + kQuietTime);
      if (now_ < phase_limit_) return;
      // Data lost at the end of the faults is repeated at growing intervals.
      phase_limit_ = now_ + kRestTime;
      if (!scenario_->at_rest(now_) && now_ < rest_limit_) return;
      phase_ = Phase::kOver;
      if (!std::exchange(idles_, false)) return;
      phase_ = Phase::kIdle;
      phase_limit_ = now_ + kIdleTime;
      return;
    case Phase::kIdle:
      if (now_ < phase_limit_) return;
      phase_ = Phase::kRest;  // a keepalive may be under way
      phase_limit_ = now_ + kQuietTime;
      rest_limit_ = now_ + kDrainTime;
      return;
    case Phase::kOver:
      return;
  }
}

void World::finish() {
  if (trace_.prints()) describe_end();
  if (!ledger_.violations().empty()) return;
  ledger_.settle(now_);
  for (uint32_t link = 0; link < fabric_.links(); ++link) {
    violation("link", link, check_credits_at_rest(fabric_.cable(link), plan_.fabric.lanes));
  }
  scenario_->check_at_rest(now_);
  for (uint32_t node = 0; node < turns_.nodes(); ++node) check_counters(node);
  check_link_counters();
}

/// Checks the counters of a living node; those of dead nodes were checked when they died.
void World::check_counters(uint32_t node) {
  if (!plan_.fabric.is_switch(node)) {
    if (endnodes_[node - 1]->alive())
      counter_check_.check(fmt::format("node {}, port,", node), endnodes_[node - 1]->counters(), now_);
    return scenario_->check_counters(node, now_);
  }
  const fabric::Switch* core = fabric_.switch_at(node == kSwitchNode ? 0 : 1);
  for (uint32_t port = 1; core != nullptr && port <= core->ports(); ++port) {
    counter_check_.check(fmt::format("switch node {}, port {},", node, port),
                         core->port(static_cast<fabric::PortNumber>(port)).counters, now_);
  }
}

void World::check_link_counters() {
  for (uint32_t link = 0; link < fabric_.links(); ++link) {
    for (uint32_t end = 0; end < 2; ++end) {
      counter_check_.check(fmt::format("link {} end {}", link, end), fabric_.cable(link).end(end).counters(),
                           now_);
    }
  }
}

WorldResult World::result() const {
  WorldResult result;
  result.ok = ledger_.violations().empty();
  result.violations = ledger_.violations();
  result.trace_hash = trace_.hash();
  result.trace_events = trace_.events();
  result.turns = turn_count_;
  result.flits = flits_;
  result.ended = now_;
  result.effects = effects_;
  result.effects.turns_missed = turns_.missed();
  for (uint32_t flow = 0; flow < ledger_.flows(); ++flow) {
    const FlowTotals totals = ledger_.totals(flow);
    result.frames.sent += totals.sent;
    result.frames.arrived += totals.arrived;
    result.frames.lost_to_crash += totals.lost_to_crash;
  }
  return result;
}

WorldResult run_world(uint64_t seed, Profile profile, Traffic traffic, const WorldOutput& output,
                      uint32_t edition) {
  World world(make_world_plan(seed, profile, traffic, edition), output);
  return world.run();
}

}  // namespace weft::sim
