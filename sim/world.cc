// How it works: every object of a node belongs to its Node and dies with it; cables, ledger and scenario
// stand outside. A turn polls all nodes in random order (a node may miss its turn), lets the scenario work,
// and checks the invariants. After a turn with work, time moves by a random small step; after one without,
// it jumps to the next deadline or event. Traffic runs until all that was planned is offered, the last
// fault is over and something new has passed on every flow; then the world drains, rests, and every frame
// and every credit must be accounted for.
#include "sim/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/endian.h"
#include "fabric/switch.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "messages/opcode.h"
#include "sim/cell_scenario.h"
#include "sim/netdev_scenario.h"
#include "sim/raw_scenario.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kIdleTurnsMax = 20'000;
constexpr Duration kRestTime = 50ms;
constexpr Duration kJoinPollInterval = 100us;
constexpr uint64_t kSwitchGuid = 0x5745'4654'5357'0000ULL;
constexpr uint64_t kEndnodeGuid = 0x5745'4654'0000'0000ULL;
constexpr uint64_t kTurnsMax = 2'000'000;

std::string_view state_name(const LinkEngine& end) {
  switch (end.state()) {
    case LinkState::kDown:
      return "down";
    case LinkState::kUp:
      return "up";
    case LinkState::kFaulty:
      return "faulty";
  }
  return "unknown";
}

}  // namespace

/// Names the link of a flit; a cable only knows its ends.
class World::LinkWatch final : public FlitObserver {
 public:
  LinkWatch(World& world, uint32_t link) : world_(world), link_(link) {}
  void on_flit(uint32_t from_end, std::span<const std::byte> flit) noexcept override {
    world_.on_flit(link_ << 1 | from_end, flit);
  }
  uint64_t incarnation = 0;  // last seen
  bool up = false;
  uint32_t cuts = 0;  // in force

 private:
  World& world_;
  uint32_t link_;
};

struct World::Node {
  std::unique_ptr<LinkCellPort> port;
  std::unique_ptr<FaultyCellPort> faulty_port;
  std::unique_ptr<EndnodeApp> app;
  CellFaults cell_faults;
  uint32_t deaths = 0;  // crashes in force
  uint64_t lives = 0;
};

World::World(const WorldPlan& plan, const WorldOutput& output)
    : plan_(plan),
      trace_(output.trace, output.flits),
      ledger_(trace_),
      random_(plan.seed ^ 0x1111),
      link_random_(plan.seed ^ 0x2222),
      traffic_random_(plan.seed ^ 0x3333),
      switch_random_(plan.seed ^ 0x4444) {
  build_links();
  plan_events();
  scenario_ = make_scenario();
  for (uint32_t i = 0; i < plan_.fabric.endnodes; ++i) nodes_.push_back(std::make_unique<Node>());
  start_switch();
  for (uint32_t node = 1; node <= plan_.fabric.endnodes; ++node) start_node(node);
}

std::unique_ptr<Scenario> World::make_scenario() {
  switch (plan_.traffic) {
    case Traffic::kCells:
      return make_cell_scenario(plan_, ledger_, traffic_random_);
    case Traffic::kRaw:
      return make_raw_scenario(plan_, ledger_, trace_, traffic_random_);
    case Traffic::kNetdev:
      return make_netdev_scenario(plan_, ledger_, trace_, traffic_random_);
    case Traffic::kAny:
    case Traffic::kCount:
      break;
  }
  WEFT_CHECK(false, "the plan names no traffic");
}

World::~World() {
  for (auto& node : nodes_) node->app.reset();
  nodes_.clear();
  switch_.reset();
}

LinkConfig World::end_config(uint32_t end, uint32_t link) const {
  const FabricPlan& fabric = plan_.fabric;
  LinkConfig config;
  config.cell_payload_bytes = fabric.cell_payload_bytes;
  config.flit_payload_bytes = fabric.flit_payload_bytes;
  config.lanes = fabric.lanes;
  config.credits_per_lane = fabric.credits_per_lane;
  config.cut_through = fabric.cut_through;
  config.is_switch = end == 1;
  config.guid = Guid(end == 1 ? kSwitchGuid : kEndnodeGuid + link + 1);
  if (end == 0) config.lid = Lid(static_cast<uint16_t>(link + 1));
  return config;
}

void World::build_links() {
  for (uint32_t link = 0; link < plan_.fabric.endnodes; ++link) {
    watches_.push_back(std::make_unique<LinkWatch>(*this, link));
    MemoryCableConfig config;
    for (uint32_t end = 0; end < 2; ++end) config.ends[end] = end_config(end, link);
    config.grant = {Lid(static_cast<uint16_t>(link + 1)), static_cast<uint16_t>(link + 1), SubnetId(0)};
    config.receiver_rereads = plan_.fabric.receiver_rereads;
    config.observer = watches_.back().get();
    cables_.push_back(std::make_unique<MemoryCable>(config, link_random_));
  }
}

void World::plan_events() {
  for (uint32_t i = 0; i < plan_.faults.size(); ++i) {
    events_.push_back({plan_.faults[i].begin, EventKind::kFaultsBegin, i});
    events_.push_back({plan_.faults[i].end, EventKind::kFaultsEnd, i});
  }
  for (const CutWindow& cut : plan_.cuts) {
    events_.push_back({cut.begin, EventKind::kCut, cut.link});
    events_.push_back({cut.end, EventKind::kMend, cut.link});
  }
  for (const Crash& crash : plan_.crashes) {
    events_.push_back({crash.at, EventKind::kCrash, crash.node});
    events_.push_back({crash.back_at, EventKind::kRestart, crash.node});
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
}

void World::run_events() {
  for (; next_event_ < events_.size() && events_[next_event_].at <= now_; ++next_event_) {
    const Event& event = events_[next_event_];
    switch (event.kind) {
      case EventKind::kFaultsBegin:
        apply_faults(plan_.faults[event.index], true);
        break;
      case EventKind::kFaultsEnd:
        apply_faults(plan_.faults[event.index], false);
        break;
      case EventKind::kCut:
        ++watches_[event.index]->cuts;
        trace_.event(now_, TraceKind::kLinkCut, event.index);
        wire(event.index);
        break;
      case EventKind::kMend:
        --watches_[event.index]->cuts;
        trace_.event(now_, TraceKind::kLinkMended, event.index);
        wire(event.index);
        break;
      case EventKind::kCrash:
        if (event.index == kSwitchNode) {
          if (switch_deaths_++ == 0) crash_switch();
        } else if (nodes_[event.index - 1]->deaths++ == 0) {
          crash_node(event.index);
        }
        break;
      case EventKind::kRestart:
        if (event.index == kSwitchNode) {
          if (--switch_deaths_ == 0) start_switch();
        } else if (--nodes_[event.index - 1]->deaths == 0) {
          start_node(event.index);
        }
        break;
    }
  }
}

void World::apply_faults(const FaultWindow& window, bool on) {
  const FaultRates rates = on ? window.rates : FaultRates{};
  trace_.event(now_, TraceKind::kFaults, window.link << 1 | window.from_end,
               static_cast<uint64_t>(window.layer), on ? rates.drop_ppm : 0);
  if (window.layer == FaultLayer::kFlit) {
    cables_[window.link]->set_faults(window.from_end, rates);
    return;
  }
  Node& node = *nodes_[window.link];
  node.cell_faults = rates;
  if (node.faulty_port != nullptr) node.faulty_port->set_faults(rates);
}

void World::start_node(uint32_t id) {
  Node& node = *nodes_[id - 1];
  ++node.lives;
  trace_.event(now_, TraceKind::kNodeStart, id, node.lives);
  node.port = std::make_unique<LinkCellPort>(cables_[id - 1]->end(0));
  node.faulty_port = std::make_unique<FaultyCellPort>(*node.port, link_random_, node.cell_faults);
  node.app = scenario_->start(id, node.lives, *node.faulty_port, now_);
  wire(id - 1);
}

void World::crash_node(uint32_t id) {
  Node& node = *nodes_[id - 1];
  ++crashes_;
  trace_.event(now_, TraceKind::kNodeCrash, id);
  scenario_->crash(id, now_);
  node.app.reset();
  node.faulty_port.reset();
  node.port.reset();
  wire(id - 1);
}

void World::start_switch() {
  ++switch_lives_;
  trace_.event(now_, TraceKind::kNodeStart, kSwitchNode, switch_lives_);
  SwitchConfig config;
  config.link = end_config(1, 0);
  config.ports = plan_.fabric.endnodes;
  switch_ = std::make_unique<Switch>(config);
  for (uint32_t link = 0; link < cables_.size(); ++link) {
    const auto port = static_cast<PortNumber>(link + 1);
    switch_->attach(port, cables_[link]->end(1));
    switch_->forwarding().set(Lid(port), port);
    wire(link);
  }
}

void World::crash_switch() {
  ++crashes_;
  trace_.event(now_, TraceKind::kNodeCrash, kSwitchNode);
  switch_.reset();
  for (uint32_t link = 0; link < cables_.size(); ++link) wire(link);
}

/// A cable is plugged while both of its nodes live and nobody has cut it.
void World::wire(uint32_t link) {
  const bool wanted =
      switch_ != nullptr && link < nodes_.size() && nodes_[link]->app != nullptr && watches_[link]->cuts == 0;
  MemoryCable& cable = *cables_[link];
  if (wanted == cable.plugged()) return;
  if (!wanted) return cable.unplug();
  const LinkRefusal refusal = cable.plug(now_);
  if (refusal != LinkRefusal::kNone) {
    ledger_.violation(now_, fmt::format("link {} refused: {}", link, weft::to_string(refusal)));
  }
}

int World::poll_all() {
  std::array<uint32_t, kNodesMax> order;
  const auto count = static_cast<uint32_t>(nodes_.size() + 1);
  std::iota(order.begin(), order.begin() + count, 0U);
  int work = 0;
  for (uint32_t left = count; left > 0; --left) {
    std::swap(order[left - 1], order[random_.below(left)]);
    const uint32_t id = order[left - 1];
    if (random_.chance_ppm(plan_.skip_ppm)) {
      work += 1;  // it missed its turn, so nobody knows whether there was nothing to do
      continue;
    }
    int done = 0;
    if (id == kSwitchNode) {
      if (switch_ != nullptr) done = switch_->poll(now_);
    } else if (nodes_[id - 1]->app != nullptr) {
      done = nodes_[id - 1]->app->poll(now_);
    }
    busy_turns_[id] += done != 0 ? 1 : 0;
    work += done;
  }
  return work;
}

void World::watch_links() {
  for (uint32_t link = 0; link < cables_.size(); ++link) {
    LinkWatch& watch = *watches_[link];
    const LinkEngine& end = cables_[link]->end(0);
    // A link is up for traffic once the switch has seen it too.
    const bool up = end.state() == LinkState::kUp && switch_ != nullptr &&
                    switch_->port(static_cast<PortNumber>(link + 1)).up;
    if (up != watch.up || end.incarnation() != watch.incarnation) {
      watch.up = up;
      watch.incarnation = end.incarnation();
      scenario_->link_change(link, up, switch_ == nullptr, now_);
    }
    if (end.state() == LinkState::kUp && cables_[link]->end(1).state() == LinkState::kUp) check_credits(link);
  }
}

/// Per link and lane: no total of one end may be ahead of the total of the other end it answers. Then
/// granted - sent = free is the same as free + in flight + held + not yet told = capacity.
void World::check_credits(uint32_t link) {
  for (uint32_t from = 0; from < 2; ++from) {
    for (uint8_t lane = 0; lane < plan_.fabric.lanes; ++lane) {
      const LaneCredit& sender = cables_[link]->end(from).lane(VirtualLane(lane));
      const LaneCredit& receiver = cables_[link]->end(1 - from).lane(VirtualLane(lane));
      const uint64_t granted = receiver.arrived() - receiver.held();
      const uint64_t returned = sender.available() + sender.sent() - sender.capacity();
      if (receiver.arrived() > sender.sent() || granted > receiver.arrived() || returned > granted ||
          sender.available() > sender.capacity()) {
        ledger_.violation(
            now_, fmt::format(
                      "link {} from end {} lane {}: sent {} arrived {} granted {} returned {} free {}", link,
                      from, lane, sender.sent(), receiver.arrived(), granted, returned, sender.available()));
      }
    }
  }
}

/// Cells in = cells out + drops + cells that wait, at every moment (SAN-NODE-01).
void World::check_switch_cells() {
  uint64_t in = 0;
  uint64_t gone = 0;
  for (uint32_t number = 1; number <= switch_->ports(); ++number) {
    const auto& counters = switch_->port(static_cast<PortNumber>(number)).counters;
    in += counters.get(SwitchPortCounter::kCellsIn);
    gone += counters.get(SwitchPortCounter::kCellsOut);
    for (auto i = static_cast<uint32_t>(kFirstDrop); i < static_cast<uint32_t>(SwitchPortCounter::kCount);
         ++i) {
      gone += counters.get(static_cast<SwitchPortCounter>(i));
    }
  }
  if (in == gone + switch_->cells_held()) return;
  ledger_.violation(
      now_, fmt::format("switch: {} cells in, {} out or dropped, {} held", in, gone, switch_->cells_held()));
}

void World::check_credits_at_rest(uint32_t link) {
  if (cables_[link]->end(0).state() != LinkState::kUp || cables_[link]->end(1).state() != LinkState::kUp) {
    ledger_.violation(now_, fmt::format("link {} is down at the end", link));
    return;
  }
  for (uint32_t from = 0; from < 2; ++from) {
    for (uint8_t lane = 0; lane < plan_.fabric.lanes; ++lane) {
      const LaneCredit& sender = cables_[link]->end(from).lane(VirtualLane(lane));
      if (sender.available() == sender.capacity()) continue;
      ledger_.violation(
          now_, fmt::format("link {} from end {} lane {}: {} of {} credits are missing at rest", link, from,
                            lane, sender.capacity() - sender.available(), sender.capacity()));
    }
  }
}

Instant World::next_deadline() const {
  Instant due = scenario_->deadline();
  if (next_event_ < events_.size()) due = std::min(due, events_[next_event_].at);
  if (switch_ != nullptr) due = std::min(due, switch_->deadline());
  for (const auto& node : nodes_) {
    if (node->app != nullptr) due = std::min(due, node->app->deadline());
  }
  for (uint32_t link = 0; link < cables_.size(); ++link) {
    due = std::min({due, cables_[link]->end(0).deadline(), cables_[link]->end(1).deadline()});
    // A switch is woken by a descriptor when somebody joins; here it has to be asked.
    if (cables_[link]->plugged() && !watches_[link]->up) due = std::min(due, now_ + kJoinPollInterval);
  }
  return std::min(due, phase_limit_);
}

void World::advance(int work) {
  if (std::exchange(woken_, false)) ++work;
  const auto spread = static_cast<uint64_t>((plan_.step_max - plan_.step_min).count());
  const Duration step = plan_.step_min + Duration(static_cast<int64_t>(random_.below(spread + 1)));
  if (work != 0) {
    idle_turns_ = 0;
    now_ += step;
    return;
  }
  const Instant due = next_deadline();
  if (due > now_) {
    idle_turns_ = 0;
    now_ = due == kNever ? now_ + 1ms : due;
    return;
  }
  now_ += step;
  ++late_turns_;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->app != nullptr && nodes_[i]->app->deadline() < now_) ++node_late_turns_[i + 1];
  }
  if (switch_ != nullptr && switch_->deadline() < now_) ++node_late_turns_[kSwitchNode];
  if (++idle_turns_ == kIdleTurnsMax) {
    ledger_.violation(now_, "somebody has a deadline in the past and never meets it");
  }
}

void World::change_phase() {
  const Instant faults_end = plan_.faults_end();
  const bool recovered = scenario_->recovered(faults_end);
  switch (phase_) {
    case Phase::kTraffic:
      if (phase_limit_ == kNever) phase_limit_ = faults_end + kRecoveryTime;
      if (scenario_->finished() && !std::exchange(trickling_, true)) {
        scenario_->trickle(now_);
        woken_ = true;
      }
      if (!recovered && now_ >= phase_limit_) {
        ledger_.violation(now_, "nothing new has passed on every flow within 5 s of the last fault");
      }
      if (now_ < phase_limit_ && !(recovered && scenario_->finished() && now_ >= faults_end)) return;
      scenario_->stop(now_);
      phase_ = Phase::kDrain;
      phase_limit_ = now_ + kDrainTime;
      return;
    case Phase::kDrain:
      if (!scenario_->drained() && now_ < phase_limit_) return;
      if (!scenario_->drained()) {
        ledger_.settle(now_);
        ledger_.violation(now_, "not drained within 2 s");
      }
      phase_ = Phase::kRest;
      phase_limit_ = now_ + kRestTime;
      return;
    case Phase::kRest:
      if (now_ < phase_limit_) return;
      phase_ = Phase::kOver;
      return;
    case Phase::kOver:
      return;
  }
}

WorldResult World::run() {
  while (phase_ != Phase::kOver && ledger_.violations().empty()) {
    run_events();
    int work = poll_all();
    work += scenario_->step(now_);
    // What was published wakes the other end, whatever its sender's poll() returned.
    if (trace_flits_ != std::exchange(seen_flits_, trace_flits_)) ++work;
    watch_links();
    if (switch_ != nullptr) check_switch_cells();
    scenario_->check(now_);
    change_phase();
    advance(work);
    if (++turns_ == kTurnsMax) ledger_.violation(now_, "the run does not end");
  }
  finish();
  WorldResult result;
  result.ok = ledger_.violations().empty();
  result.violations = ledger_.violations();
  result.trace_hash = trace_.hash();
  result.trace_events = trace_.events();
  result.turns = turns_;
  result.ended = now_;
  result.crashes = crashes_;
  for (uint32_t flow = 0; flow < ledger_.flows(); ++flow) {
    const FlowTotals totals = ledger_.totals(flow);
    result.frames.sent += totals.sent;
    result.frames.arrived += totals.arrived;
    result.frames.lost_to_crash += totals.lost_to_crash;
  }
  return result;
}

void World::finish() {
  if (trace_.prints()) {
    for (size_t id = 0; id <= nodes_.size(); ++id) {
      trace_.note(now_, fmt::format("node {} was busy in {} of {} turns, late in {}", id, busy_turns_[id],
                                    turns_, node_late_turns_[id]));
    }
    for (size_t link = 0; link < cables_.size(); ++link) {
      trace_.note(now_, fmt::format("link {} is {} and {}", link, state_name(cables_[link]->end(0)),
                                    state_name(cables_[link]->end(1))));
    }
    trace_.note(now_, fmt::format("{} turns were spent on deadlines in the past", late_turns_));
    trace_.note(now_, scenario_->report());
  }
  if (!ledger_.violations().empty()) return;
  ledger_.settle(now_);
  for (uint32_t link = 0; link < cables_.size(); ++link) check_credits_at_rest(link);
}

void World::on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept {
  ++trace_flits_;
  trace_.event(now_, TraceKind::kFlit, link_and_end, load_be<uint64_t>(flit.data()),
               load_be<uint32_t>(flit.data() + 12));
  if (trace_.prints_flits() && flit.size() > kFlitHeaderBytes + kCellHeaderBytes) {
    describe_cell(link_and_end, flit.subspan(kFlitHeaderBytes));
  }
}

/// One line for a cell that fills its flit, for people who look for a bug.
void World::describe_cell(uint32_t link_and_end, std::span<const std::byte> cell) {
  CellView view;
  if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return;
  const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(view.opcode));
  std::string line =
      fmt::format("link {}.{} {} -> {} {} qp {:06x} psn {:06x} cell {} flags {:02x} {} bytes",
                  link_and_end >> 1, link_and_end & 1, view.slid.value(), view.dlid.value(), info->name,
                  view.dest_qpn.value(), view.psn.value(), view.cell_number, view.flags, view.payload.size());
  if ((info->properties & kOpAcknowledge) != 0) {
    line += fmt::format(" ack psn {:06x} cell {} code {} msn {}", view.ack.psn.value(), view.ack.cell_number,
                        static_cast<int>(view.ack.code), view.ack.messages_completed);
  }
  trace_.note(now_, line);
}

WorldResult run_world(uint64_t seed, Profile profile, Traffic traffic, const WorldOutput& output) {
  World world(make_world_plan(seed, profile, traffic), output);
  return world.run();
}

}  // namespace weft::sim
