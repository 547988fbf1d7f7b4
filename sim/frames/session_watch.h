// sim/frames/session_watch.h -- one session of the split driver seen from outside: its two flows, whether its
// ends are open, whether it may be lost, and the requests of its host beside frames.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/frames/flow_ledger.h"
#include "sim/frames/frame_station.h"
#include "sim/frames/netdev_nodes.h"
#include "sim/plan/world_plan.h"

namespace weft::sim {

/// The nodes of a session; null while dead.
struct SessionNodes {
  HostNode* host = nullptr;
  UnitNode* unit = nullptr;
};

/// Owner: the netdev scenario.
class SessionWatch {
 public:
  /// `host_index`: index of the session among those of its host, from 0. All references must outlive the
  /// watch.
  SessionWatch(const SessionPlan& plan, const WorldParts& parts, size_t host_index);
  /// Sets the stations at both ends and adds this session's sources and sinks to them.
  void join(FrameStation& os, FrameStation& nic);

  [[nodiscard]] const SessionPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] FrameStation& os() const noexcept { return *os_; }
  /// The session's nodes, one bit each.
  [[nodiscard]] uint32_t nodes() const noexcept { return 1U << plan_.host_node | 1U << plan_.unit_node; }

  void node_died(uint32_t node, Instant now);
  void link_changed(uint32_t link, bool switch_death);
  /// Notices that an end has opened or was lost.
  void observe(const SessionNodes& nodes, Instant now);
  /// Changes the NIC's configuration or closes the session when that is planned. True when it changed the
  /// host.
  bool act(const SessionNodes& nodes, Instant now);
  /// Time of the next action of act().
  [[nodiscard]] Instant deadline() const noexcept;
  /// The unit gave up a host that took no frames and blocked its neighbours. That is a violation unless the
  /// host could not be reached.
  void slow_host(Instant now);
  /// Checks invariants between the two ends that hold at every moment.
  void check(const SessionNodes& nodes, Instant now);
  /// True when nothing is under way: each end knows every element that the other has exposed, all elements
  /// are exposed, and every request of the host has its answer.
  [[nodiscard]] bool at_rest(const SessionNodes& nodes, Instant now) const;
  void check_at_rest(const SessionNodes& nodes, Instant now);

  [[nodiscard]] bool recovered(Instant since) const {
    return ledger_.passed_since(flows_[0], since) && ledger_.passed_since(flows_[1], since);
  }
  [[nodiscard]] bool drained() const {
    return ledger_.outstanding(flows_[0]) == 0 && ledger_.outstanding(flows_[1]) == 0;
  }

 private:
  /// One end at the last observation.
  struct End {
    bool open = false;
    uint64_t incarnation = 0;
    Instant since{};      // time of its opening
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
  /// Where the unit's state for its host differs from the host's last request; empty when it does not.
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

  // Requests of the host.
  std::vector<ConfigChange> changes_;  // sorted by time
  size_t next_change_ = 0;
  uint8_t mac_turn_ = 0;   // number of addresses that the host has used
  bool settling_ = false;  // the unit may not know the host's address yet, so its frames may be lost
  bool close_due_;
  bool closing_ = false;
};

}  // namespace weft::sim
