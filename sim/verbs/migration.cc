#include "sim/verbs/migration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapter/adapter.h"

namespace weft::sim::verbs {

namespace {

/// The port by which the peer sends has got the LID with which the alternate path was loaded, so its cells do
/// not show which path they use.
bool has_others_lid(const Qp& qp) {
  const Qp& peer = *qp.peer;
  return peer.node->lids[peer.routes[peer.on].port - 1U] == qp.routes[1U - qp.on].peer;
}

}  // namespace

using adapter::PathMigState;

Route route_of(const Qp& from, uint8_t port, const Qp& to, uint8_t to_port) {
  return {port, from.node->lids[port - 1U], to.node->lids[to_port - 1U], from.node->links[port - 1U],
          to.node->links[to_port - 1U]};
}

std::vector<Route> ways_between(const Qp& from, const Qp& to) {
  std::vector<Route> ways;
  const auto ports = static_cast<uint8_t>(from.node->lids.size());
  const auto others = static_cast<uint8_t>(to.node->lids.size());
  for (uint8_t port = 1; port <= ports; ++port)
    for (uint8_t other = 1; other <= others; ++other) ways.push_back(route_of(from, port, to, other));
  return ways;
}

void choose_alternate(PlanDraw& draw, Qp& qp, Qp& peer) {
  std::vector<std::pair<uint8_t, uint8_t>> others;
  const auto ports = static_cast<uint8_t>(qp.node->lids.size());
  const auto peer_ports = static_cast<uint8_t>(peer.node->lids.size());
  for (uint8_t a = 1; a <= ports; ++a) {
    for (uint8_t b = 1; b <= peer_ports; ++b) {
      const bool same = a == qp.port && b == peer.port;
      if (!same && qp.node->links[a - 1U] != peer.node->links[b - 1U]) others.emplace_back(a, b);
    }
  }
  if (others.empty() || qp.routes[0].link == qp.routes[0].peer_link || draw.chance(4)) return;
  const auto [a, b] = others[draw.below(others.size())];
  qp.routes[1] = route_of(qp, a, peer, b);
  peer.routes[1] = route_of(peer, b, qp, a);
  const uint32_t who = draw.below(10);  // sometimes only one end, which causes no migration
  qp.ways = peer.ways = 2;
  qp.loaded = who != 0;
  peer.loaded = who != 1;
}

void load_alternate(Qp& qp, const Links& links, adapter::QpAttr& attr, uint32_t& mask, Instant now) {
  const uint8_t way = 1U - qp.on;
  Route& other = qp.routes[way];
  const Route fresh = route_of(qp, other.port, *qp.peer, qp.peer->routes[way].port);
  if (fresh.own != other.own || fresh.peer != other.peer) {
    other = fresh;
    for (const SendPtr& send : qp.sends) {
      send->silence[way] = links.useless(other, now);
      send->unanswered[way] = links.silence(other, now);
    }
  }
  attr.alt = {.dlid = other.peer, .sl = attr.sl, .port = other.port, .ack_timeout = qp.patience / 8};
  attr.path_mig_state = PathMigState::kRearm;
  mask |= adapter::kQpAttrAltPath | adapter::kQpAttrPathMigState;
  qp.loaded = qp.was_loaded = true;
  qp.cuts_before = links.cuts(qp.routes[qp.on].link);
  qp.other_cuts_before = links.cuts(other.link);
}

bool may_load_again(const Qp& qp) {
  if (qp.peer == nullptr || qp.ways != 2 || qp.broken) return false;
  const auto ready = [](const Qp& end) {
    if (end.handle == nullptr || end.life != Life::kReady || end.loaded) return false;
    return end.node->adapter->query_qp(*end.handle).state == adapter::QpState::kRts;
  };
  return ready(qp) && ready(*qp.peer) && qp.on == qp.peer->on;
}

PathMigState migration_of(const Qp& qp) {
  return qp.node->adapter->query_qp(*qp.handle).path_mig_state;
}

void before_failure(std::vector<std::unique_ptr<Node>>& nodes, const Links& links, uint32_t link,
                    uint32_t trunk, bool for_long) {
  for (auto& node : nodes) {
    for (auto& qp : node->qps) {
      const Route& way = qp->routes[qp->on];
      const bool concerned = way.link == link || way.peer_link == link || link == trunk;
      if (qp->handle == nullptr || qp->life == Life::kReset || qp->ways != 2 || !concerned) continue;
      const bool armed = migration_of(*qp) == PathMigState::kArmed;
      const bool leaves = armed && way.link == link && for_long && !links.loops(way);
      if (leaves && qp->life != Life::kError) qp->must_move = true;
      const Qp& peer = *qp->peer;
      const bool both = armed && peer.handle != nullptr && migration_of(peer) == PathMigState::kArmed;
      if (!both) qp->unprotected = qp->peer->unprotected = true;
    }
  }
}

bool asked_in_vain(const Qp& qp, const Send& send, const Links& links, Instant now) {
  if (send.executes_here || send.to == nullptr || !qp.acknowledged()) return false;
  const Duration since = std::max(send.unanswered[qp.on], qp.unanswered_before);
  return links.silence(qp.routes[qp.on], now) - since >= qp.patience / 2;
}

std::string path_migrated(Qp& qp, const Links& links, bool may_be_late, Instant now) {
  if (qp.ways != 2 || !qp.loaded || !qp.peer->was_loaded)
    return "there was no alternate path, or not for both";
  const Route& left = qp.routes[qp.on];
  const bool silent = std::any_of(qp.sends.begin(), qp.sends.end(),
                                  [&](const SendPtr& send) { return asked_in_vain(qp, *send, links, now); });
  const bool cut = links.cuts(left.link) != qp.cuts_before;
  // A late cell from before this path was loaded cannot be distinguished from a request to leave the path:
  // its PSN may be valid now.
  const bool misled = may_be_late || has_others_lid(qp);
  // A link that resets by itself is reported after the QPs have left it.
  const bool anew = links.resets_itself();
  // A request that may never be answered, such as a read whose key has ended, is also sent by the other path.
  const bool unanswered = std::any_of(qp.sends.begin(), qp.sends.end(), [](const SendPtr& send) {
    return send->may(adapter::WcStatus::kRetryExceeded);
  });
  const bool lost = cut || silent || anew || unanswered || qp.broken;
  const bool reason = misled || qp.asked || qp.peer->on != qp.on || lost;
  if (!reason) return "there was no reason to leave the path";
  qp.on ^= 1U;
  qp.unanswered_before = links.silence(qp.routes[qp.on], now);
  qp.loaded = qp.asked = qp.must_move = qp.must_fail = false;
  if (qp.peer->handle == nullptr) return {};
  // The peer is ready to follow only when it knows the alternate path.
  if (qp.peer->on != qp.on && migration_of(*qp.peer) != PathMigState::kArmed) {
    qp.unprotected = qp.peer->unprotected = true;
    qp.estranged = qp.peer->estranged = true;
  }
  if (qp.handle == nullptr) return {};
  if (links.fails(qp.routes[qp.on])) qp.unprotected = qp.peer->unprotected = true;
  const adapter::QpAttr attr = qp.node->adapter->query_qp(*qp.handle);
  const Route& taken = qp.routes[qp.on];
  if (attr.state == adapter::QpState::kReset) return {};
  if (attr.port != taken.port || attr.dlid != taken.peer || attr.path_mig_state != PathMigState::kMigrated)
    return "its attributes are not those of the path it has taken";
  return {};
}

std::string path_refused(Qp& qp, const Links& links, bool may_be_late, Instant now) {
  if (qp.ways != 2 || !qp.loaded) return "there was no alternate path";
  const Route& other = qp.routes[1U - qp.on];
  const bool down = links.is_cut(other.link) || links.cuts(other.link) != qp.other_cuts_before;
  const bool misled = may_be_late || has_others_lid(qp);
  if (!down && !misled && qp.peer->on == qp.on) return "there was no reason to stay on the path";
  qp.asked = qp.must_move = false;
  qp.has_refused = down;
  qp.refused_at = now;
  if (!down) qp.estranged = qp.peer->estranged = true;
  return {};
}

std::string nobody_stayed(const Node& node, uint8_t port) {
  for (const auto& qp : node.qps) {
    if (qp->routes[qp->on].port != port || qp->handle == nullptr) continue;
    if (qp->must_move) return fmt::format("QP {} was to leave it and did not", qp->id);
    if (qp->must_fail) return fmt::format("it had expired, and QP {} was not failed", qp->id);
  }
  return {};
}

}  // namespace weft::sim::verbs
