// sim/session_watch.h -- one session of the split driver as the outside sees it: its two flows, whether its
// ends are open, whether it may be lost, and what its host asks of it beside frames.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/flow_ledger.h"
#include "sim/frame_station.h"
#include "sim/netdev_nodes.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// The nodes of a session; null while dead.
struct SessionNodes {
  HostNode* host = nullptr;
  UnitNode* unit = nullptr;
};

/// Owner: the netdev scenario.
class SessionWatch {
 public:
  /// `host_index`: which of its host's sessions it is, from 0. All references must outlive the watch.
  SessionWatch(const SessionPlan& plan, const WorldParts& parts, size_t host_index);
  /// The stations at both ends; adds this session's sources and sinks.
  void join(FrameStation& os, FrameStation& nic);

  [[nodiscard]] const SessionPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] FrameStation& os() const noexcept { return *os_; }
  /// Its nodes, a bit each.
  [[nodiscard]] uint32_t nodes() const noexcept { return 1U << plan_.host_node | 1U << plan_.unit_node; }

  void node_died(uint32_t node, Instant now);
  void link_changed(uint32_t link, bool switch_death);
  /// Notices that either end opened or was lost.
  void observe(const SessionNodes& nodes, Instant now);
  /// Changes the NIC's configuration or closes the session when that is planned. True when it touched the
  /// host.
  bool act(const SessionNodes& nodes, Instant now);
  /// When act() has something to do next.
  [[nodiscard]] Instant deadline() const noexcept;
  /// The unit gave up on a host that took nothing while it held up its neighbours: right for a host that
  /// cannot be reached, a bug for any other.
  void slow_host(Instant now);
  /// What holds between the two ends at every moment.
  void check(const SessionNodes& nodes, Instant now);
  /// Nothing is under way: each end knows every element that the other has exposed, and all of them are;
  /// every request of the host has its answer.
  [[nodiscard]] bool at_rest(const SessionNodes& nodes, Instant now) const;
  void check_at_rest(const SessionNodes& nodes, Instant now);

  [[nodiscard]] bool recovered(Instant since) const {
    return ledger_.passed_since(flows_[0], since) && ledger_.passed_since(flows_[1], since);
  }
  [[nodiscard]] bool drained() const {
    return ledger_.outstanding(flows_[0]) == 0 && ledger_.outstanding(flows_[1]) == 0;
  }

 private:
  /// One end as seen last.
  struct End {
    bool open = false;
    uint64_t incarnation = 0;
    Instant since{};      // open
    uint64_t missed = 0;  // packets that its channels had missed before
  };

  [[nodiscard]] session::NetdevSession* at_host(const SessionNodes& nodes) const;
  [[nodiscard]] session::NetdevSession* at_unit(const SessionNodes& nodes) const;
  void note(End& end, session::NetdevSession* session, std::string_view role, Instant now);
  void check_gaps(const End& end, session::NetdevSession* session, std::string_view role, Instant now);
  [[nodiscard]] bool may_be_lost(const End& end, Instant now) const;
  void apply(const ConfigChange& change, HostNode& host, Instant now);
  void use_address(const MacAddress& mac);
  void excuse(Instant now);
  [[nodiscard]] bool sums(const SessionNodes& nodes, Instant now, session::SessionConservation& host,
                          session::SessionConservation& unit) const;
  /// Where the unit does something else for its host than the host asked for last; empty when nowhere.
  [[nodiscard]] std::string disagreement(const SessionNodes& nodes) const;
  void violation(std::string_view what, const session::SessionConservation& host,
                 const session::SessionConservation& unit, Instant now);

  const SessionPlan& plan_;
  const WorldPlan& world_;
  size_t host_index_;
  FlowLedger& ledger_;
  Trace& trace_;
  Saboteur* saboteur_;
  uint32_t flows_[2];  // host to LAN, LAN to host
  FrameStation* os_ = nullptr;
  FrameStation* nic_ = nullptr;
  size_t nic_source_ = 0;
  End host_end_;
  End unit_end_;
  bool reason_ = false;  // the session may be lost
  bool cut_ = false;     // the host was out of reach at some time while the switch lived

  // What the host asks.
  std::vector<ConfigChange> changes_;  // in the order of time
  size_t next_change_ = 0;
  uint8_t mac_turn_ = 0;   // addresses that the host has used
  bool settling_ = false;  // the unit may not yet know the host's address: its frames may be lost
  bool close_due_;
  bool closing_ = false;
};

}  // namespace weft::sim
