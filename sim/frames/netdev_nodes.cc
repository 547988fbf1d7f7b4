#include "sim/frames/netdev_nodes.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::sim {
namespace {

Guid guid_of(uint32_t node) {
  return Guid(0x5745'4654'0000'0000ULL + node);
}

/// Smaller limits than those of processes, because an adapter is made again after every crash.
adapter::AdapterLimits small(adapter::AdapterLimits limits) {
  limits.queue_pairs = limits.completion_queues = 128;
  limits.keys = 1024;
  return limits;
}

session::SessionConfig session_config(session::SessionRole role, const SessionPlan& plan) {
  session::SessionConfig config;
  config.role = role;
  config.name = fmt::format("{}-{}", plan.host_node, plan.unit_node);
  config.mode = plan.mode;
  config.encoding = plan.encoding;
  config.pools = {{plan.pool_element_bytes, plan.pool_elements}};
  config.frame_bytes_max = mtu_of(plan) + kEthernetHeaderBytes + 4;
  config.mac = host_mac(plan);
  config.force_indicate = plan.force_indicate;
  config.unit = Lid(static_cast<uint16_t>(plan.unit_node));
  config.sl = plan.sl;
  config.limits.send_ring_bytes = 16 * 1024;
  return config;
}

session::AcceptorConfig acceptor_config(const std::vector<const SessionPlan*>& plans) {
  session::AcceptorConfig config;
  config.session = session_config(session::SessionRole::kUnit, *plans.front());
  config.session.mac = lan_mac(*plans.front());
  for (const SessionPlan* plan : plans) {
    session::PoolClass& pool = config.session.pools.front();
    pool.element_bytes = std::max(pool.element_bytes, plan->pool_element_bytes);
    pool.elements = std::min(pool.elements, plan->pool_elements);
    config.session.frame_bytes_max =
        std::max(config.session.frame_bytes_max, mtu_of(*plan) + kEthernetHeaderBytes + 4);
  }
  return config;
}

/// Nonzero counters, one per line.
template <class Node>
std::string list_counters(Node& node, std::string_view kind) {
  std::string out;
  node.each_counters([&]<class E>(std::string_view owner, const CounterSet<E>& counters) {
    for (size_t i = 0; i < CounterSet<E>::kSize; ++i) {
      const auto counter = static_cast<E>(i);
      if (counters.get(counter) == 0) continue;
      out +=
          fmt::format("\n    {} {} {} {}", kind, owner, CounterSet<E>::label(counter), counters.get(counter));
    }
  });
  return out;
}

}  // namespace

MacAddress host_mac(const SessionPlan& plan) {
  return {0x02, 0, 0, 0, static_cast<uint8_t>(plan.unit_node), static_cast<uint8_t>(plan.host_node)};
}

MacAddress lan_mac(const SessionPlan& plan) {
  return {0x02, 0, 0, 1, static_cast<uint8_t>(plan.unit_node), static_cast<uint8_t>(plan.host_node)};
}

uint32_t mtu_of(const SessionPlan& plan) {
  const uint32_t payload = plan.bytes_max - kEthernetHeaderBytes;
  return payload <= 1500 ? 1500 : payload <= 9000 ? 9000 : kNicMtuBytes;
}

// ---- HostNode ---------------------------------------------------------------------------------------------

HostNode::HostNode(uint32_t node, uint64_t seed, fabric::CellPort& port,
                   const std::vector<const SessionPlan*>& plans, const std::vector<FrameStation*>& stations)
    : random_(seed),
      adapter_(guid_of(node), random_, small(hca::hca_limits())),
      session_ports_(adapter_.adapter()) {
  adapter_.attach(port);
  for (size_t i = 0; i < plans.size(); ++i) {
    Half half;
    half.session = session::NetdevSession::make(session_config(session::SessionRole::kHost, *plans[i]),
                                                session_ports_, random_);
    half.driver = std::make_unique<host::HostNetdev>(
        *half.session, *stations[i],
        host::NicSettings{.mac = host_mac(*plans[i]), .mtu_bytes = mtu_of(*plans[i]), .filters = {}});
    half.driver->open();
    halves_.push_back(std::move(half));
  }
}

int HostNode::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  for (Half& half : halves_) work += half.driver->poll(now);
  return work + adapter_.adapter().send_posted();
}

Instant HostNode::deadline() const noexcept {
  Instant due = adapter_.deadline();
  for (const Half& half : halves_) due = std::min(due, half.driver->deadline());
  return due;
}

std::string HostNode::report() {
  return list_counters(*this, "host") + fmt::format("\n    host deadlines: adapter {} ns, all {} ns",
                                                    adapter_.deadline().time_since_epoch().count(),
                                                    deadline().time_since_epoch().count());
}

// ---- UnitNode ---------------------------------------------------------------------------------------------

UnitNode::UnitNode(uint32_t node, uint64_t seed, fabric::CellPort& port,
                   const std::vector<const SessionPlan*>& plans, FrameStation& nic)
    : random_(seed),
      adapter_(guid_of(node), random_, small(tca::tca_limits())),
      session_ports_(adapter_.adapter()),
      acceptor_(acceptor_config(plans), session_ports_, random_),
      driver_(acceptor_, nic, iou::NicPolicy{}) {
  adapter_.attach(port);
}

int UnitNode::poll(Instant now) noexcept {
  const int work = adapter_.poll(now) + driver_.poll(now);
  return work + adapter_.adapter().send_posted();
}

Instant UnitNode::deadline() const noexcept {
  return std::min(adapter_.deadline(), driver_.deadline());
}

std::string UnitNode::report() {
  return list_counters(*this, "unit") + fmt::format("\n    unit deadlines: adapter {} ns, all {} ns",
                                                    adapter_.deadline().time_since_epoch().count(),
                                                    deadline().time_since_epoch().count());
}

const iou::UnitClient* UnitNode::client_of(const session::NetdevSession& session) const noexcept {
  const auto clients = driver_.clients();
  const auto at = std::find_if(clients.begin(), clients.end(), [&](const iou::UnitClient& client) {
    return client.active && client.session == &session;
  });
  return at != clients.end() ? &*at : nullptr;
}

session::NetdevSession* UnitNode::session_with(Lid host) noexcept {
  for (session::NetdevSession* session : acceptor_.sessions()) {
    if (session->state() == session::SessionState::kOpen && session->peer().lid == host) return session;
  }
  return nullptr;
}

}  // namespace weft::sim
