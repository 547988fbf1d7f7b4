// sim/frames/netdev_nodes.h -- the objects of the processes weft-host and weft-iou: adapter, sessions, driver
// half. They are made again after each crash.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "hca/hca.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"
#include "session/netdev_session.h"
#include "session/session_port.h"
#include "sim/adapter_counters.h"
#include "sim/frames/frame_station.h"
#include "sim/plan/world_plan.h"
#include "sim/scenario.h"
#include "tca/tca.h"

namespace weft::sim {

/// MAC addresses of a host on the LAN of a unit, and of the LAN station that talks to the host.
[[nodiscard]] MacAddress host_mac(const SessionPlan& plan);
[[nodiscard]] MacAddress lan_mac(const SessionPlan& plan);
/// MTU of every LAN; allows frames of 65,000 bytes.
inline constexpr uint32_t kNicMtuBytes = 65'000;
/// MTU that allows the plan's largest frame.
[[nodiscard]] uint32_t mtu_of(const SessionPlan& plan);

/// A host: one OS interface and one session per unit.
class HostNode final : public EndnodeApp {
 public:
  /// @param stations  the OS interface of each session, in the order of `plans`
  HostNode(uint32_t node, uint64_t seed, fabric::CellPort& port, const std::vector<const SessionPlan*>& plans,
           const std::vector<FrameStation*>& stations);

  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  [[nodiscard]] size_t sessions() const noexcept { return halves_.size(); }
  [[nodiscard]] session::NetdevSession& session(size_t index) noexcept { return *halves_[index].session; }
  [[nodiscard]] host::HostNetdev& driver(size_t index) noexcept { return *halves_[index].driver; }
  /// Calls `visit(owner, set)` for each counter set of the node.
  template <class Visit>
  void each_counters(Visit visit);
  [[nodiscard]] std::string report();

 private:
  struct Half {
    std::unique_ptr<session::NetdevSession> session;
    std::unique_ptr<host::HostNetdev> driver;
  };

  SeededRandom random_;
  hca::Hca adapter_;
  session::SessionPorts session_ports_;
  std::vector<Half> halves_;
};

/// An I/O unit: one LAN NIC, shared by its hosts.
class UnitNode final : public EndnodeApp {
 public:
  UnitNode(uint32_t node, uint64_t seed, fabric::CellPort& port, const std::vector<const SessionPlan*>& plans,
           FrameStation& nic);

  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  /// The open session with this host; null when there is none.
  [[nodiscard]] session::NetdevSession* session_with(Lid host) noexcept;
  /// The unit's state for the host of an open session.
  [[nodiscard]] const iou::UnitClient* client_of(const session::NetdevSession& session) const noexcept;
  [[nodiscard]] session::SessionAcceptor& acceptor() noexcept { return acceptor_; }
  [[nodiscard]] uint64_t slow_host_drops() noexcept {
    return driver_.counters().get(iou::UnitCounter::kSlowHostDrops);
  }
  uint64_t slow_host_drops_seen = 0;  // value that the scenario saw last
  /// Like HostNode::each_counters().
  template <class Visit>
  void each_counters(Visit visit);
  [[nodiscard]] std::string report();

 private:
  SeededRandom random_;
  tca::Tca adapter_;
  session::SessionPorts session_ports_;
  session::SessionAcceptor acceptor_;
  iou::IouNetdev driver_;
};

template <class Visit>
void each_counters(session::NetdevSession& session, Visit visit) {
  visit(session.config().name, session.counters());
  for (uint32_t channel = 0; channel < 2; ++channel) {
    visit(session.config().name, session.channel_counters(channel));
  }
}

template <class Visit>
void HostNode::each_counters(Visit visit) {
  for (Half& half : halves_) {
    visit(half.session->config().name, half.driver->counters());
    visit(half.session->config().name, half.driver->controller().counters());
    sim::each_counters(*half.session, visit);
  }
  sim::each_counters(adapter_.adapter(), visit);
}

template <class Visit>
void UnitNode::each_counters(Visit visit) {
  visit("unit", driver_.counters());
  visit("unit", driver_.config().counters());
  visit("unit", acceptor_.counters());
  for (session::NetdevSession* session : acceptor_.sessions()) sim::each_counters(*session, visit);
  sim::each_counters(adapter_.adapter(), visit);
}

}  // namespace weft::sim
