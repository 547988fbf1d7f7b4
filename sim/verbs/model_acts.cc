// The part of the model that handles the program's calls.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/plan/world_plan.h"
#include "sim/verbs/migration.h"
#include "sim/verbs/model.h"

namespace weft::sim::verbs {

using adapter::SendOpcode;
using adapter::WcStatus;

std::string_view name_of(SendOpcode opcode) noexcept {
  switch (opcode) {
    case SendOpcode::kRdmaWrite:
      return "write";
    case SendOpcode::kRdmaWriteWithImm:
      return "write with immediate";
    case SendOpcode::kSend:
      return "send";
    case SendOpcode::kSendWithImm:
      return "send with immediate";
    case SendOpcode::kRdmaRead:
      return "read";
    case SendOpcode::kCompareSwap:
      return "compare and swap";
    case SendOpcode::kFetchAdd:
      return "fetch and add";
    case SendOpcode::kLocalInvalidate:
      return "local invalidate";
    case SendOpcode::kBindWindow:
      return "bind";
    case SendOpcode::kSendWithInvalidate:
      return "send with invalidate";
    case SendOpcode::kDelay:
      return "delay";
    case SendOpcode::kUnbindWindow:
      return "unbind";
    case SendOpcode::kRegister:
      return "register";
  }
  return "?";
}

std::string describe(const Send& send) {
  std::string lawful;
  for (uint32_t status = 0; status < 22; ++status) {
    if ((send.lawful >> status & 1) != 0)
      lawful += fmt::format("{}{}", lawful.empty() ? "" : " or ", to_string(static_cast<WcStatus>(status)));
  }
  const std::string queue = send.srq != nullptr ? fmt::format(", queue {:x}", send.srq->number) : "";
  return fmt::format("wr {} ({} {} of {} bytes in {} pieces, QP {} to {}{}, lawful: {})", send.wr_id,
                     type_name(send.from->config.type), name_of(send.opcode), send.length, send.pieces.size(),
                     send.from->id, send.to != nullptr ? std::to_string(send.to->id) : "no QP", queue,
                     lawful);
}

void Model::release(const std::vector<Piece>& pieces, bool accept) {
  for (const Piece& piece : pieces) {
    if (accept) piece.region->accept(piece.offset, piece.length);
    piece.region->lent.erase(piece.offset);
  }
}

void Model::posted(Qp& qp, const SendPtr& send) {
  send->begin = tick();
  send->posted_at = time_;
  send->from = &qp;
  send->to_epoch = send->to != nullptr ? send->to->epoch : 0;
  send->place = {qp.epoch << 16 | (send->to != nullptr ? send->to->id : 0), qp.posted++};
  if (send->opcode == SendOpcode::kRegister && !send->may(WcStatus::kSuccess) &&
      qp.config.registration == adapter::SendRegistration::kAnticipatory)
    for (const SendPtr& before : qp.sends) before->allow(WcStatus::kFlushed);  // all requests stop at once
  qp.sends.push_back(send);
  if (qp.life == Life::kError || qp.life == Life::kSendError) {
    send->lawful = bit_of(WcStatus::kFlushed);
    send->to = nullptr;
  }
  // A datagram may find its QP alive again; a connection that has ended never returns as the same one.
  const bool listens =
      send->to != nullptr && (qp.connected() ? send->to->receiving : send->to->handle != nullptr);
  // A message that is refused because of the key that it invalidates has taken a receive.
  const bool takes = send->opcode == SendOpcode::kSendWithInvalidate && qp.connected();
  const bool reaches = listens && (!send->refused || send->partly || takes);
  if (!reaches) {
    send->patch = nullptr;
    send->word = nullptr;
  }
  if (send->executes_here || send->to == nullptr) return;
  send->silence = silence(*send);
  for (uint32_t way = 0; way < qp.ways && qp.peer != nullptr; ++way)
    send->unanswered[way] = links_.silence(qp.routes[way], time_);
  Qp& to = *send->to;
  if (!to.receiving && qp.acknowledged()) {
    if (!listens) send->lawful &= bit_of(WcStatus::kLocalProtection) | bit_of(WcStatus::kFlushed);
    if (!send->may(WcStatus::kLocalProtection)) send->allow(WcStatus::kRetryExceeded);
  }
  if (!listens) return;
  to.seen_by_peers |= send->lawful;
  if (send->opcode == SendOpcode::kSendWithInvalidate && !qp.connected()) to.fills_early = true;
  if (!reaches) return;
  if (send->takes_receive() && (!send->refused || takes)) to.coming[&qp].push_back(send);
  open_operation(send);
}

void Model::open_operation(const SendPtr& send) {
  if (send->patch != nullptr && send->opcode == SendOpcode::kRdmaRead) return send->patch->open_read();
  if (send->patch != nullptr) {
    const bool fenced = (send->flags & adapter::kSendFence) != 0;
    std::span<const std::byte> data = send->data;
    if (send->partly) data = data.subspan(send->patch_from, send->patch_bytes);
    send->name = send->patch->open_write(send->place, now_, send->patch_at + send->patch_from, data, fenced);
  } else if (send->word == nullptr) {
    return;
  }
  send->to->incoming.push_back(send);
}

/// A write or an atomic operation can no longer happen.
void Model::close_operation(const SendPtr& send, bool certain, const uint64_t* found) {
  std::string wrong;
  if (send->word != nullptr) {
    send->word->close(send->name, now_, found);
    wrong = send->word->check();
  } else if (send->patch != nullptr && send->is_write()) {
    send->patch->close_write(send->name, now_, certain);
    if (send->patch->quiet()) wrong = send->patch->check(now_);
  } else {
    return;
  }
  if (!wrong.empty()) fail(fmt::format("memory after {}: {}", describe(*send), wrong));
  if (send->to == nullptr) return;
  std::vector<SendPtr>& incoming = send->to->incoming;
  incoming.erase(std::remove(incoming.begin(), incoming.end(), send), incoming.end());
}

/// Without acknowledgements, requests posted before one that has arrived are over.
void Model::close_up_to(Qp& to, const Qp* from, uint64_t index) {
  const std::vector<SendPtr> all = to.incoming;
  for (const SendPtr& send : all) {
    if (send->from != from || send->place.index > index) continue;
    const bool good =
        !plan_.loses() && send->succeeded && !send->refused && send->key->state == Key::State::kGood;
    const bool certain = send->place.index == index || (good && !send->takes_receive());
    close_operation(send, certain, nullptr);
  }
}

void Model::begins(Qp& qp) noexcept {
  qp.life = Life::kReady;
  qp.failed = qp.broken = false;
  qp.receiving = true;
  qp.posted = 0;
  qp.seen_by_peers = 0;
  qp.must_fail = qp.asked = qp.must_move = qp.unprotected = qp.estranged = false;
  qp.loaded = qp.was_loaded = qp.has_refused = qp.may_expire = false;
  qp.started_at = time_;
  qp.unanswered_before = {};
  qp.ways = 1;
  qp.on = 0;
  qp.shortest_receive = ~uint64_t{0};
  qp.unusable_receives = false;
  for (const Srq* srq : qp.shared_queues()) {
    for (const auto& [wr_id, receive] : srq->receives) {
      qp.shortest_receive = std::min(qp.shortest_receive, receive->capacity);
      qp.unusable_receives = qp.unusable_receives || receive->unusable;
    }
  }
}

void Model::stop_receiving(Qp& qp) {
  if (!std::exchange(qp.receiving, false)) return;
  allow_to(qp, WcStatus::kRetryExceeded);
  if (qp.connected()) close_all(qp);
}

void Model::close_all(Qp& qp) {
  const std::vector<SendPtr> incoming = qp.incoming;
  for (const SendPtr& send : incoming) close_operation(send, false, nullptr);
  qp.incoming.clear();
}

void Model::stopped(Qp& qp, bool exact) {
  if (qp.life == Life::kError) return;
  tick();
  qp.life = Life::kError;
  qp.must_fail = qp.asked = qp.must_move = false;
  qp.broken = qp.was_in_error = true;
  if (qp.peer != nullptr) qp.peer->broken = true;
  if (qp.srq != nullptr) ++qp.expects_last_wqe;
  for (const SendPtr& send : qp.sends) {
    if (exact && send->signaled) send->lawful = 0;
    send->allow(WcStatus::kFlushed);
  }
  stop_receiving(qp);
}

void Model::allow_to(const Qp& to, WcStatus status) {
  each_send([&](const SendPtr& send) {
    if (send->to == &to && !send->executes_here && to.acknowledged()) send->allow(status);
  });
}

void Model::retire_silent(Qp& qp) {
  tick();
  while (!qp.sends.empty()) {
    const SendPtr send = qp.sends.front();
    qp.sends.pop_front();
    if (send->signaled || !send->may(WcStatus::kSuccess))
      fail(fmt::format("{} never came back", describe(*send)));
    send_succeeded(qp, send);
  }
}

void Model::forgotten(Qp& qp) {
  tick();
  // Errors caused by its receives may still be on the way to a sender.
  each_send([&](const SendPtr& send) {
    if (send->to != &qp) return;
    for (const WcStatus status : {WcStatus::kRemoteInvalidRequest, WcStatus::kRemoteOperation})
      if (may_now(*send, status)) send->allow(status);
  });
  stop_receiving(qp);
  for (const SendPtr& send : qp.sends) {
    send->done = true;
    if (send->executes_here) in_doubt(*send, WcStatus::kFlushed);
    if (send->opcode == SendOpcode::kRdmaRead && send->patch != nullptr)
      static_cast<void>(send->patch->close_read(send->place, send->begin, now_, 0, {}));
    release(send->pieces, send->opcode == SendOpcode::kRdmaRead || send->is_atomic());
  }
  qp.sends.clear();
  for (const ReceivePtr& receive : qp.receives) release(receive->pieces, true);
  qp.receives.clear();
  if (qp.connected() || qp.handle == nullptr) {
    if (!qp.is_target()) qp.coming.clear();
    close_all(qp);
  }
  // Messages that had arrived and were not polled are lost with the queue.
  for (auto& [sender, messages] : qp.coming)
    for (const SendPtr& send : messages) send->may_be_gone = true;
  qp.life = Life::kReset;
  qp.must_fail = qp.asked = qp.must_move = false;
  qp.broken = true;
  if (qp.peer != nullptr) qp.peer->broken = true;
  // Receives of a shared queue that a message had begun to fill are back in the queue.
  for (Srq* srq : qp.shared_queues())
    for (auto& [wr_id, receive] : srq->receives) receive->untouched = false;
}

void Model::died(Node& node) {
  for (auto& qp : node.qps) {
    if (qp->handle == nullptr) continue;
    qp->handle = nullptr;
    forgotten(*qp);
  }
  for (auto& qp : node.qps) {
    qp->expects_last_wqe = 0;
    for (auto& [sender, messages] : qp->coming)
      for (const SendPtr& send : messages) send->may_be_gone = true;
  }
  for (auto& srq : node.srqs) {
    for (auto& [wr_id, receive] : srq->receives) release(receive->pieces, true);
    srq->receives.clear();
    srq->limit = 0;
  }
  for (const uint32_t link : node.links) links_.ends(link);
}

void Model::partitions(Node& node, uint8_t port, bool alone) {
  const uint32_t link = node.links[port - 1U];
  if (alone) before_failure(nodes_, links_, link, plan_.fabric.endnodes, false);
  links_.partitions(link, alone, time_);
}

void Model::cut(uint32_t link, Duration lasts) {
  constexpr Duration kLong = std::chrono::milliseconds(1);
  before_failure(nodes_, links_, link, plan_.fabric.endnodes, lasts >= kLong);
  links_.cut(link, time_);
}

void Model::switch_dies(const std::vector<uint32_t>& lost, Duration lasts) {
  const auto gone = [&](uint32_t link) { return std::find(lost.begin(), lost.end(), link) != lost.end(); };
  each_send([&](const SendPtr& send) {
    const Route& route = send->from->routes[send->from->on];
    const bool under_way = !send->executes_here && send->to != nullptr && send->from->peer != nullptr;
    if (under_way && (gone(route.link) || gone(route.peer_link))) send->saw_switch_die = true;
  });
  for (const uint32_t link : lost) cut(link, lasts);
}

void Model::mended(uint32_t link) {
  if (const std::string wrong = links_.mended(link, time_); !wrong.empty()) fail(wrong);
}

void Model::renamed(uint32_t link, Lid lid, bool other_guid) {
  links_.renamed(link, lid, other_guid, time_);
  for (auto& node : nodes_) {
    for (size_t i = 0; node->adapter != nullptr && i < node->links.size(); ++i) {
      if (node->links[i] != link) continue;
      if (node->lids[i] != lid) lid_changes(*node, static_cast<uint8_t>(i + 1), lid);
    }
  }
}

void Model::lid_changes(Node& node, uint8_t port, Lid lid) {
  node.lids[port - 1U] = lid;
  for (auto& qp : node.qps) {
    if (qp->port != port) continue;
    qp->lid = lid;
    // A responder that gets a repeated request under another LID takes it for a new one.
    if (qp->config.type != adapter::QpType::kRd) continue;
    for (const SendPtr& send : qp->sends)
      if (!send->executes_here) send->allow(WcStatus::kRetryExceeded);
  }
}

bool Model::cannot_pass(const Send& send) const {
  const Qp& from = *send.from;
  if (send.executes_here || send.to == nullptr || from.peer == nullptr) return false;
  const Qp& to = *from.peer;
  const Instant since = send.posted_at - std::chrono::milliseconds(1);  // both ends have noticed the change
  for (uint32_t way = 0; way < from.ways; ++way) {
    for (uint32_t back = 0; back < to.ways; ++back) {
      // Ends on different routes can reach each other if one port has got the LID of another.
      Route route = from.routes[way];
      route.own = to.routes[back].peer;
      route.peer_link = to.routes[back].link;
      if (!links_.is_stale_since(route, since)) return false;
    }
  }
  return true;
}

std::array<Duration, 2> Model::silence(const Send& send) const {
  const Qp& from = *send.from;
  const Qp& to = *send.to;
  if (from.peer == nullptr) {
    Route route = route_of(from, from.port, to, to.port);
    route.peer = send.to_lid;
    return {links_.silence(route, time_)};
  }
  if (from.finds_ways) {
    const std::vector<Route> ways = ways_between(from, to);
    return {links_.useless(ways, 1, time_), links_.useless(ways, ways.size(), time_)};
  }
  std::array<Duration, 2> silence{};
  if (from.ways == 1) return {links_.silence(from.routes[0], time_)};
  for (uint32_t way = 0; way < from.ways; ++way) silence[way] = links_.useless(from.routes[way], time_);
  return silence;
}

bool Model::out_of_reach(const Send& send) const {
  const Qp& from = *send.from;
  if (send.executes_here || send.to == nullptr || !from.acknowledged()) return false;
  if (from.estranged) return true;
  const std::array<Duration, 2> now = silence(send);
  const Duration one = now[0] - send.silence[0];
  const Duration other = now[1] - send.silence[1];
  if (from.finds_ways) return (knows_ways(from) ? other : one) >= from.patience / 2;
  const Duration silent = from.ways == 1 ? one : !from.unprotected ? std::min(one, other) : one + other;
  return silent >= from.patience / 2;
}

/// True if the QP has certainly learnt the ways to its peer: no cell is lost above the links, and the route
/// on which it asked worked at first.
bool Model::knows_ways(const Qp& qp) const {
  constexpr Duration kAsked = std::chrono::microseconds(300);
  const Instant by = qp.started_at + kAsked;
  if (qp.node == qp.peer->node || plan_.loses_cells() || links_.resets_itself()) return false;
  return time_ >= by && links_.is_whole(qp.routes[0], qp.started_at, by);
}

/// A port has expired. True if this QP may have had no other way, because its peer did not listen, too.
bool Model::had_no_way(const Qp& qp) const {
  constexpr Duration kFound = std::chrono::seconds(1);
  if (!knows_ways(qp) || !qp.peer->receiving) return true;
  const std::vector<Route> ways = ways_between(qp, *qp.peer);
  return std::none_of(ways.begin(), ways.end(),
                      [&](const Route& way) { return links_.is_whole(way, time_ - kFound, time_); });
}

bool Model::explains_stuck(Qp& qp) {
  if (qp.must_fail) return true;
  bool explained = false;
  for (const SendPtr& send : qp.sends) {
    if (may_now(*send, WcStatus::kRetryExceeded)) explained = true;
    if (!asked_in_vain(qp, *send, links_, time_)) continue;
    if (!explained) tally_("given up, the port of the other path being down");
    explained = true;
    send->allow(WcStatus::kRetryExceeded);
  }
  return explained;
}

/// A port was down until its connections were given up.
void Model::expire(const Node& node, uint8_t port) {
  for (const auto& qp : node.qps) {
    const Route& route = qp->routes[qp->on];
    const bool lives = qp->handle != nullptr && qp->life != Life::kReset && qp->life != Life::kError;
    const bool loops = qp->connected() && links_.loops(route);
    if (qp->finds_ways && lives && had_no_way(*qp)) qp->may_expire = true;
    if (!lives || route.port != port || !qp->acknowledged() || loops || qp->finds_ways) continue;
    qp->must_fail = true;
    for (const SendPtr& send : qp->sends)
      if (!send->executes_here) send->allow(WcStatus::kRetryExceeded);
  }
}

void Model::port_event(Node& node, const adapter::AsyncEvent& event) {
  using adapter::AsyncEventKind;
  std::string wrong = links_.told(node.links[event.port - 1U], event.kind, time_);
  if (event.kind == AsyncEventKind::kPortExpired) expire(node, event.port);
  if (wrong.empty() && event.kind == AsyncEventKind::kPortUp) wrong = nobody_stayed(node, event.port);
  if (!wrong.empty())
    fail(fmt::format("port {} of node {}: event {}, and {}", event.port, node.number, to_string(event.kind),
                     wrong));
}

void Model::in_doubt(const Send& send, WcStatus status) noexcept {
  if (send.key == nullptr) return;
  const bool flushed = status == WcStatus::kFlushed;  // perhaps executed after a failed request
  Region& region = *send.key->region;
  const bool of_region = region.reserved && !send.key->window;
  if (send.key->state == Key::State::kBinding)
    send.key->state = flushed ? Key::State::kEnding : Key::State::kDead;
  if (!of_region) return;
  region.under_way = false;
  region.doubtful = flushed || send.opcode != SendOpcode::kRegister;
}

void Model::ends(const KeyPtr& key) {
  tick();
  key->state = Key::State::kEnding;
  each_send([&](const SendPtr& send) {
    if (send->key != key || send->executes_here) return;
    if (send->from->acknowledged()) send->allow(WcStatus::kRemoteAccess);
    // A lost response is not sent again under a key that has ended.
    if (send->opcode == SendOpcode::kRdmaRead) send->allow(WcStatus::kRetryExceeded);
    if (send->to != nullptr) send->to->seen_by_peers |= bit_of(WcStatus::kRemoteAccess);
  });
  // A request that its sender has given up may still be executed and refused.
  for (auto& node : nodes_)
    for (auto& qp : node->qps)
      for (const SendPtr& send : qp->incoming)
        if (send->key == key) qp->seen_by_peers |= bit_of(WcStatus::kRemoteAccess);
}

void Model::deregistered(Region& region) {
  tick();
  ends(region.key);
  ended(region.key);
  spoil(region);
  each_send([&](const SendPtr& send) {
    const bool binds = send->opcode == SendOpcode::kBindWindow && send->key->region == &region;
    if (binds) send->allow(WcStatus::kMwBind);
  });
}

void Model::ends_registration(Region& region) {
  region.registered = false;
  ends(region.key);
  spoil(region);
}

/// Memory of posted requests is deregistered.
void Model::spoil(const Region& region) {
  const auto hit = [&](const std::vector<Piece>& pieces) {
    return std::any_of(pieces.begin(), pieces.end(),
                       [&](const Piece& piece) { return piece.region == &region; });
  };
  each_send([&](const SendPtr& send) {
    if (hit(send->pieces) && (send->flags & adapter::kSendInline) == 0)
      send->allow(WcStatus::kLocalProtection);
  });
  for (auto& qp : region.node.qps) {
    const auto lost = [&](const ReceivePtr& receive) {
      if (!hit(receive->pieces)) return;
      receive->unusable = qp->unusable_receives = true;
    };
    for (const ReceivePtr& receive : qp->receives) lost(receive);
    for (Srq* srq : qp->shared_queues())
      for (auto& [wr_id, receive] : srq->receives) lost(receive);
  }
}

void Model::ended(const KeyPtr& key) {
  if (key->state == Key::State::kDead) return;
  key->state = Key::State::kDead;
  Region& region = *key->region;
  region.node.dead.push_back(key);
  if (region.reserved && !key->window) region.under_way = region.doubtful = false;
}

void Model::settle() {
  tick();
  for (auto& node : nodes_) {
    for (auto& srq : node->srqs)
      if (srq->limit != 0 && srq->receives.size() < srq->limit)
        fail(fmt::format("no event said that a shared receive queue of node {} ran below its limit",
                         node->number));
  }
  for (auto& node : nodes_)
    for (auto& qp : node->qps) {
      retire_silent(*qp);
      close_all(*qp);
    }
  for (auto& node : nodes_) {
    for (const uint32_t link : node->links) {
      const std::string wrong = node->adapter != nullptr ? links_.silent(link) : "";
      if (!wrong.empty()) fail(fmt::format("a port of node {}: {}", node->number, wrong));
    }
    expect_nothing_of(*node);
    for (auto& region : node->regions) {
      if (const std::string wrong = region->sweep(); !wrong.empty()) fail(wrong);
      for (auto& [offset, patch] : region->patches) {
        const std::string wrong = patch.check(now_);
        if (!wrong.empty())
          fail(fmt::format("node {}, region at {:x}, offset {}: {}", node->number, region->mr.addr, offset,
                           wrong));
        if (!patch.quiet()) fail("an operation on memory never ended");
      }
      for (auto& [offset, word] : region->words) {
        if (const std::string wrong = word.check(); !wrong.empty()) fail(wrong);
      }
    }
    check_lost(*node);
  }
}

/// Checks that every request has come back, and that every message reported as delivered has arrived.
void Model::expect_nothing_of(const Node& node) {
  for (const auto& qp : node.qps) {
    if (!qp->receives.empty())
      fail(fmt::format("receive wr {} never came back", qp->receives.front()->wr_id));
    if (qp->expects_last_wqe != 0) fail(fmt::format("QP {} never said that it took its last WQE", qp->id));
    if (!qp->acknowledged()) continue;
    for (const auto& [sender, messages] : qp->coming) {
      for (const SendPtr& send : messages)
        if (send->succeeded && !send->may_be_gone)
          fail(fmt::format("{} succeeded and was never delivered", describe(*send)));
    }
  }
}

/// Without losses, an unacknowledged message may be missing only if its receiver counted it.
void Model::check_lost(Node& node) {
  using adapter::AdapterCounter;
  if (plan_.loses()) return;
  uint64_t counted = 0;
  for (const AdapterCounter counter :
       {AdapterCounter::kDropNoRecvWqe, AdapterCounter::kDropLength, AdapterCounter::kDropAccess,
        AdapterCounter::kDropQpState, AdapterCounter::kDropNoQp, AdapterCounter::kDropQkey})
    counted += node.adapter->counters().get(counter);
  const std::vector<SendPtr>& missing = lost_[&node];
  const auto lost =
      static_cast<uint64_t>(std::count_if(missing.begin(), missing.end(), [](const SendPtr& send) {
        return send->succeeded && !send->may_be_gone && !send->delivered;
      }));
  if (lost > counted)
    fail(fmt::format("node {} lost {} messages and counted {}", node.number, lost, counted));
}

}  // namespace weft::sim::verbs
