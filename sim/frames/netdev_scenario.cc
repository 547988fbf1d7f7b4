// How it works: the stations (OS interfaces and LAN NICs) stand outside the nodes and survive them. One watch
// per session (session_watch.cc) knows what the session promises and which frames may be lost. This file
// connects nodes, stations and watches.
#include "sim/frames/netdev_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/counter_check.h"
#include "sim/frames/netdev_nodes.h"
#include "sim/frames/session_watch.h"

namespace weft::sim {
namespace {

class NetdevScenario final : public Scenario {
 public:
  explicit NetdevScenario(const WorldParts& parts) : parts_(parts), plan_(parts.plan), ledger_(parts.ledger) {
    const size_t nodes = plan_.fabric.endnodes + 1;
    hosts_.resize(nodes);
    units_.resize(nodes);
    nics_.resize(nodes);
    for (const SessionPlan& session : plan_.sessions) add_session(session);
  }

  std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t incarnation, fabric::CellPort& port,
                                    Instant now) override {
    const uint64_t seed = plan_.seed ^ (incarnation << 16 | node << 4 | 0x5);
    std::vector<const SessionPlan*> of_unit;
    std::vector<const SessionPlan*> of_host;
    std::vector<FrameStation*> interfaces;
    for (const SessionWatch& watch : watches_) {
      if (watch.plan().unit_node == node) of_unit.push_back(&watch.plan());
      if (watch.plan().host_node != node) continue;
      of_host.push_back(&watch.plan());
      interfaces.push_back(&watch.os());
    }
    for (auto& station : stations_) station->set_now(now);
    if (!of_unit.empty()) {
      auto unit = std::make_unique<UnitNode>(node, seed, port, of_unit, *nics_[node]);
      units_[node] = unit.get();
      return unit;
    }
    auto host = std::make_unique<HostNode>(node, seed, port, of_host, interfaces);
    hosts_[node] = host.get();
    return host;
  }

  void crash(uint32_t node, Instant now) override {
    for (SessionWatch& watch : watches_) {
      if ((watch.nodes() >> node & 1) != 0) watch.node_died(node, now);
    }
    hosts_[node] = nullptr;
    units_[node] = nullptr;
    changed_ |= 1U << node;
  }

  void link_change(uint32_t link, bool /*up*/, bool switch_death, Instant /*now*/) override {
    for (SessionWatch& watch : watches_) watch.link_changed(link, switch_death);
  }

  uint32_t step(uint32_t polled, Instant now) override {
    polled |= std::exchange(changed_, 0);
    uint32_t touched = 0;
    for (SessionWatch& watch : watches_) {
      const SessionNodes nodes = nodes_of(watch);
      const bool looked = (polled & watch.nodes()) != 0;
      if (looked) watch.observe(nodes, now);
      if ((looked || watch.deadline() <= now) && watch.act(nodes, now)) {
        touched |= 1U << watch.plan().host_node;
        watch.observe(nodes, now);
      }
    }
    for (uint32_t node = 0; node < units_.size(); ++node) {
      if ((polled >> node & 1) != 0 && units_[node] != nullptr) note_slow_hosts(node, now);
    }
    return touched;
  }
  /// The deadlines of the stations are reported by the driver halves.
  [[nodiscard]] Instant deadline() const override {
    Instant due = kNever;
    for (const SessionWatch& watch : watches_) due = std::min(due, watch.deadline());
    return due;
  }

  void check(uint32_t worked, Instant now) override {
    for (SessionWatch& watch : watches_) {
      if ((worked & watch.nodes()) != 0) watch.check(nodes_of(watch), now);
    }
    for (uint32_t node = 0; node < hosts_.size(); ++node) {
      if ((worked >> node & 1) == 0) continue;
      if (hosts_[node] != nullptr) {
        for (size_t i = 0; i < hosts_[node]->sessions(); ++i) check_session(hosts_[node]->session(i), now);
      }
      if (units_[node] == nullptr) continue;
      for (session::NetdevSession* session : units_[node]->acceptor().sessions())
        check_session(*session, now);
    }
  }

  void check_counters(uint32_t node, Instant now) override {
    const auto each = [&](std::string_view owner, const auto& counters) {
      parts_.counter_check.check(fmt::format("node {}, {},", node, owner), counters, now);
    };
    if (hosts_[node] != nullptr) hosts_[node]->each_counters(each);
    if (units_[node] != nullptr) units_[node]->each_counters(each);
  }

  [[nodiscard]] bool at_rest(Instant now) const override {
    return std::all_of(watches_.begin(), watches_.end(), [this, now](const SessionWatch& watch) {
      return watch.at_rest(nodes_of(watch), now);
    });
  }
  void check_at_rest(Instant now) override {
    for (SessionWatch& watch : watches_) watch.check_at_rest(nodes_of(watch), now);
  }

  [[nodiscard]] bool recovered(Instant since) const override {
    return std::all_of(watches_.begin(), watches_.end(),
                       [since](const SessionWatch& watch) { return watch.recovered(since); });
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
    return std::all_of(watches_.begin(), watches_.end(),
                       [](const SessionWatch& watch) { return watch.drained(); });
  }
  [[nodiscard]] std::string report() const override {
    std::string out = "counters";
    for (HostNode* host : hosts_) out += host != nullptr ? host->report() : "";
    for (UnitNode* unit : units_) out += unit != nullptr ? unit->report() : "";
    return out;
  }

 private:
  void add_session(const SessionPlan& session) {
    const auto of_host = std::count_if(watches_.begin(), watches_.end(), [&](const SessionWatch& watch) {
      return watch.plan().host_node == session.host_node;
    });
    watches_.emplace_back(session, parts_, static_cast<size_t>(of_host));
    auto os =
        std::make_unique<FrameStation>("os", host_mac(session), mtu_of(session), ledger_, parts_.random);
    FrameStation*& nic = nics_[session.unit_node];
    if (nic == nullptr) {
      stations_.push_back(
          std::make_unique<FrameStation>("nic", MacAddress{}, kNicMtuBytes, ledger_, parts_.random));
      nic = stations_.back().get();
    }
    watches_.back().join(*os, *nic);
    stations_.push_back(std::move(os));
  }

  [[nodiscard]] SessionNodes nodes_of(const SessionWatch& watch) const {
    return {hosts_[watch.plan().host_node], units_[watch.plan().unit_node]};
  }

  void note_slow_hosts(uint32_t node, Instant now) {
    UnitNode& unit = *units_[node];
    const uint64_t drops = unit.slow_host_drops();
    if (drops == std::exchange(unit.slow_host_drops_seen, drops)) return;
    for (SessionWatch& watch : watches_) {
      if (watch.plan().unit_node == node) watch.slow_host(now);
    }
  }

  void check_session(session::NetdevSession& session, Instant now) {
    session::SessionConservation sums = session.conservation();
    const session::SessionRole role = session.config().role;
    if (parts_.saboteur != nullptr) parts_.saboteur->on_session_sums(role, now, sums);
    if (sums.holds()) return;
    ledger_.violation(
        now, fmt::format("{} session {}: own {} = {} + {} + {}, peer {} = {} + {}, frames {} = {} + {} + {}, "
                         "inbound {} = {} + {}",
                         role == session::SessionRole::kHost ? "host" : "unit", session.config().name,
                         sums.own_elements, sums.own_exposed, sums.own_indicated, sums.own_freed,
                         sums.peer_elements, sums.peer_free, sums.peer_consumed, sums.frames_submitted,
                         sums.frames_completed, sums.frames_in_flight, sums.frames_waiting,
                         sums.frames_indicated, sums.frames_released, sums.frames_queued));
  }

  const WorldParts parts_;
  const WorldPlan& plan_;
  FlowLedger& ledger_;
  std::vector<SessionWatch> watches_;
  std::vector<std::unique_ptr<FrameStation>> stations_;
  std::vector<HostNode*> hosts_;  // by node; null while the node is dead
  std::vector<UnitNode*> units_;
  std::vector<FrameStation*> nics_;
  uint32_t changed_ = 0;  // one bit for each node that died since the last step
};

}  // namespace

std::unique_ptr<Scenario> make_netdev_scenario(const WorldParts& parts) {
  return std::make_unique<NetdevScenario>(parts);
}

}  // namespace weft::sim
