// How it works: the stations -- OS interfaces and LAN NICs -- stand outside the nodes and survive them. A
// frame that a station has handed over while its session was open is promised; it may be missing at the end
// only if the session left its open state, or one of its nodes died, afterwards. A session that leaves its
// open state needs a reason itself: a dead node, a cut link, cells lost above the links, or, without
// acknowledgements, a link that was reset.
#include "sim/netdev_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/netdev_nodes.h"

namespace weft::sim {
namespace {

/// One session as the outside sees it.
struct SessionWatch {
  const SessionPlan* plan = nullptr;
  uint32_t flows[2] = {0, 0};  // host to LAN, LAN to host
  FrameStation* os = nullptr;
  FrameStation* nic = nullptr;
  size_t nic_source = 0;  // of the flow to the host
  size_t host_index = 0;  // among the sessions of its host
  bool host_open = false;
  bool unit_open = false;
  uint64_t host_incarnation = 0;
  uint64_t unit_incarnation = 0;
  bool reason = false;  // the session may be lost
  bool cut = false;     // the host's link was away at some time while the switch lived
};

class NetdevScenario final : public Scenario {
 public:
  NetdevScenario(const WorldPlan& plan, FlowLedger& ledger, Trace& trace, RandomSource& random)
      : plan_(plan), ledger_(ledger), trace_(trace), random_(random) {
    hosts_.resize(plan.fabric.endnodes + 1);
    units_.resize(plan.fabric.endnodes + 1);
    nics_.resize(plan.fabric.endnodes + 1);
    for (const SessionPlan& session : plan.sessions) add_session(session);
  }

  std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t incarnation, CellPort& port,
                                    Instant now) override {
    const uint64_t seed = plan_.seed ^ (incarnation << 16 | node << 4 | 0x5);
    std::vector<const SessionPlan*> plans;
    std::vector<FrameStation*> stations;
    for (SessionWatch& watch : watches_) {
      if (watch.plan->unit_node == node) plans.push_back(watch.plan);
    }
    for (auto& station : stations_) station->set_now(now);
    if (!plans.empty()) {
      auto unit = std::make_unique<UnitNode>(node, seed, port, plans, *nics_[node]);
      units_[node] = unit.get();
      return unit;
    }
    for (SessionWatch& watch : watches_) {
      if (watch.plan->host_node != node) continue;
      plans.push_back(watch.plan);
      stations.push_back(watch.os);
    }
    auto host = std::make_unique<HostNode>(node, seed, port, plans, stations);
    hosts_[node] = host.get();
    return host;
  }

  void crash(uint32_t node, Instant now) override {
    for (SessionWatch& watch : watches_) {
      if (watch.plan->host_node != node && watch.plan->unit_node != node) continue;
      watch.reason = true;
      excuse(watch, now);
    }
    hosts_[node] = nullptr;
    units_[node] = nullptr;
    changed_ |= 1U << node;
  }

  void link_change(uint32_t link, bool /*up*/, bool switch_death, Instant /*now*/) override {
    for (SessionWatch& watch : watches_) {
      const SessionPlan& plan = *watch.plan;
      if (!plan_.fabric.on_path(link, plan.host_node, plan.unit_node)) continue;
      const bool unacknowledged = plan.mode == TransferMode::kSendReceive;
      if (!switch_death || unacknowledged) watch.reason = true;
      if (!switch_death && plan.unit_node != link + 1) watch.cut = true;
    }
  }

  uint32_t step(uint32_t polled, Instant now) override {
    polled |= std::exchange(changed_, 0);
    for (SessionWatch& watch : watches_) {
      if ((polled & nodes_of(watch)) != 0) observe(watch, now);
    }
    for (uint32_t node = 0; node < units_.size(); ++node) {
      if ((polled >> node & 1) != 0 && units_[node] != nullptr) note_slow_hosts(*units_[node], now);
    }
    return 0;
  }
  /// The stations' deadlines come through the driver halves.
  [[nodiscard]] Instant deadline() const override { return kNever; }

  void check(uint32_t polled, Instant now) override {
    for (const SessionWatch& watch : watches_) {
      const uint32_t node = watch.plan->host_node;
      if ((polled >> node & 1) == 0 || hosts_[node] == nullptr) continue;
      check_session(hosts_[node]->session(watch.host_index), "host", now);
    }
    for (uint32_t node = 0; node < units_.size(); ++node) {
      if ((polled >> node & 1) == 0 || units_[node] == nullptr) continue;
      for (NetdevSession* session : units_[node]->acceptor().sessions()) check_session(*session, "unit", now);
    }
  }

  [[nodiscard]] bool recovered(Instant since) const override {
    return std::all_of(watches_.begin(), watches_.end(), [&](const SessionWatch& watch) {
      return ledger_.passed_since(watch.flows[0], since) && ledger_.passed_since(watch.flows[1], since);
    });
  }
  [[nodiscard]] bool finished() const override {
    return std::all_of(stations_.begin(), stations_.end(), [](const auto& s) { return s->finished(); });
  }
  void trickle(Instant /*now*/) override {
    for (auto& station : stations_) station->trickle();
  }
  void stop(Instant /*now*/) override {
    for (auto& station : stations_) station->stop();
  }
  [[nodiscard]] bool drained() const override {
    return std::all_of(watches_.begin(), watches_.end(), [&](const SessionWatch& watch) {
      return ledger_.outstanding(watch.flows[0]) == 0 && ledger_.outstanding(watch.flows[1]) == 0;
    });
  }
  [[nodiscard]] std::string report() const override {
    std::string out = "counters";
    for (HostNode* host : hosts_) out += host != nullptr ? host->report() : "";
    for (UnitNode* unit : units_) out += unit != nullptr ? unit->report() : "";
    return out;
  }

 private:
  void add_session(const SessionPlan& session) {
    SessionWatch watch;
    watch.plan = &session;
    const std::string name = fmt::format("host {} <-> unit {}", session.host_node, session.unit_node);
    watch.flows[0] = ledger_.add_flow({host_mac(session), lan_mac(session), name + " out"});
    watch.flows[1] = ledger_.add_flow({lan_mac(session), host_mac(session), name + " in"});
    stations_.push_back(
        std::make_unique<FrameStation>("os", host_mac(session), mtu_of(session), ledger_, random_));
    watch.os = stations_.back().get();
    watch.os->add_source(source(session, watch.flows[0], session.frames[0]));
    watch.os->add_sink(watch.flows[1]);
    watch.os->set_reader_pause(session.reader_pause[1]);
    FrameStation*& nic = nics_[session.unit_node];
    if (nic == nullptr) {
      stations_.push_back(std::make_unique<FrameStation>("nic", MacAddress{}, 9000, ledger_, random_));
      nic = stations_.back().get();
    }
    nic->set_reader_pause(session.reader_pause[0]);
    watch.nic = nic;
    watch.nic_source = nic->sources().size();
    nic->add_source(source(session, watch.flows[1], session.frames[1]));
    nic->add_sink(watch.flows[0]);
    for (const SessionWatch& other : watches_) {
      if (other.plan->host_node == session.host_node) ++watch.host_index;
    }
    watches_.push_back(watch);
  }

  static FrameSource source(const SessionPlan& session, uint32_t flow, uint32_t frames) {
    FrameSource source;
    source.flow = flow;
    source.frames = frames;
    source.bytes_min = session.bytes_min;
    source.bytes_max = session.bytes_max;
    source.gap = session.gap;
    return source;
  }

  static uint32_t nodes_of(const SessionWatch& watch) {
    return 1U << watch.plan->host_node | 1U << watch.plan->unit_node;
  }

  /// Notices that either end of a session opened or was lost.
  void observe(SessionWatch& watch, Instant now) {
    HostNode* host = hosts_[watch.plan->host_node];
    UnitNode* unit = units_[watch.plan->unit_node];
    NetdevSession* at_host = host != nullptr ? &host->session(watch.host_index) : nullptr;
    NetdevSession* at_unit =
        unit != nullptr ? unit->session_with(Lid(static_cast<uint16_t>(watch.plan->host_node))) : nullptr;
    const bool host_open = at_host != nullptr && at_host->state() == SessionState::kOpen;
    note(watch, watch.host_open, watch.host_incarnation, host_open, host_open ? at_host->incarnation() : 0, 0,
         now);
    note(watch, watch.unit_open, watch.unit_incarnation, at_unit != nullptr,
         at_unit != nullptr ? at_unit->incarnation() : 0, 1, now);
    watch.os->sources().front().open = watch.host_open;
    watch.nic->sources()[watch.nic_source].open = watch.unit_open;
  }

  void note(SessionWatch& watch, bool& was_open, uint64_t& was_incarnation, bool open, uint64_t incarnation,
            uint64_t role, Instant now) {
    if (open == was_open && (!open || incarnation == was_incarnation)) return;
    trace_.event(now, TraceKind::kSessionState, watch.flows[0] | role << 8, open ? 1 : 0, incarnation);
    if (was_open) {
      if (!watch.reason && !cell_faults_so_far(now)) {
        ledger_.violation(
            now, fmt::format("session host {} <-> unit {} was lost at the {} without a reason",
                             watch.plan->host_node, watch.plan->unit_node, role == 0 ? "host" : "unit"));
      }
      excuse(watch, now);
    }
    was_open = open;
    was_incarnation = incarnation;
    // Once both ends are open again, a new loss needs a new reason.
    if (watch.host_open && watch.unit_open) watch.reason = false;
  }

  /// A unit gives up on a host that takes nothing while it holds up its neighbours: right for a host behind
  /// a cut link, a bug for any other.
  void note_slow_hosts(UnitNode& unit, Instant now) {
    const uint64_t drops = unit.slow_host_drops();
    if (drops == unit.slow_host_drops_seen) return;
    unit.slow_host_drops_seen = drops;
    for (SessionWatch& watch : watches_) {
      if (units_[watch.plan->unit_node] == &unit && watch.cut) excuse(watch, now);
    }
  }

  void excuse(SessionWatch& watch, Instant now) {
    for (uint32_t flow : watch.flows) ledger_.excuse(flow, now);
  }

  [[nodiscard]] bool cell_faults_so_far(Instant now) const {
    return std::any_of(plan_.faults.begin(), plan_.faults.end(), [now](const FaultWindow& window) {
      return window.layer == FaultLayer::kCell && window.begin <= now;
    });
  }

  void check_session(NetdevSession& session, const char* role, Instant now) {
    const SessionConservation sums = session.conservation();
    if (sums.holds()) return;
    ledger_.violation(
        now,
        fmt::format("{} session {}: own {} = {} + {} + {}, peer {} = {} + {}, frames {} = {} + {} + {}, "
                    "inbound {} = {} + {}",
                    role, session.config().name, sums.own_elements, sums.own_exposed, sums.own_indicated,
                    sums.own_freed, sums.peer_elements, sums.peer_free, sums.peer_consumed,
                    sums.frames_submitted, sums.frames_completed, sums.frames_in_flight, sums.frames_waiting,
                    sums.frames_indicated, sums.frames_released, sums.frames_queued));
  }

  const WorldPlan& plan_;
  FlowLedger& ledger_;
  Trace& trace_;
  RandomSource& random_;
  std::vector<SessionWatch> watches_;
  std::vector<std::unique_ptr<FrameStation>> stations_;
  std::vector<HostNode*> hosts_;  // by node; null while dead
  std::vector<UnitNode*> units_;
  std::vector<FrameStation*> nics_;
  uint32_t changed_ = 0;  // nodes that died since the last step, a bit each
};

}  // namespace

std::unique_ptr<Scenario> make_netdev_scenario(const WorldPlan& plan, FlowLedger& ledger, Trace& trace,
                                               RandomSource& random) {
  return std::make_unique<NetdevScenario>(plan, ledger, trace, random);
}

}  // namespace weft::sim
