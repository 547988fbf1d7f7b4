// Calls of a program beside posting: polls its queues, and sometimes disturbs its objects.
#include "sim/verbs/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "adapter/queues/shared_receives.h"

namespace weft::sim::verbs {

using adapter::QpState;

namespace {

constexpr uint32_t kQpsMax = 14;  // most QPs alive at a time

uint64_t stream_of(uint64_t seed, uint64_t number) noexcept {
  return seed * 0x9E37'79B9'7F4A'7C15ULL + number * 0xD1B5'4A32'D192'ED03ULL;
}

}  // namespace

Program::Program(const Plan& plan, std::vector<std::unique_ptr<Node>>& nodes, Model& model, Outside& outside,
                 Tally& tally, Saboteur* saboteur, bool tells)
    : plan_(plan),
      nodes_(nodes),
      model_(model),
      outside_(outside),
      tally_(tally),
      draw_(stream_of(plan.seed, 0)),
      polls_(plan.seed ^ 0x706f),
      keys_(draw_, model, tally),
      saboteur_(saboteur),
      tells_(tells) {}

Qp* Program::pick_qp() {
  std::vector<Qp*> all;
  for (auto& node : nodes_)
    for (auto& qp : node->qps)
      if (qp->handle != nullptr) all.push_back(qp.get());
  return all.empty() ? nullptr : all[draw_.below(all.size())];
}

void Program::call(uint64_t number) {
  number_ = number + 1;
  draw_ = PlanDraw(stream_of(plan_.seed, number_));
  if (unsettle()) return;
  if (draw_.below(kMillion) < plan_.upheaval_ppm) return upheaval();
  if (draw_.chance(6)) return repair();
  Qp* qp = pick_qp();
  if (qp == nullptr) return add_pair();
  if (qp->life == Life::kDrained && draw_.chance(2)) return resume(*qp);
  if (qp->life == Life::kSendError && draw_.chance(2)) return resume(*qp);
  if (!qp->may_post()) return;
  if (qp->is_target() || (!qp->is_initiator() && draw_.chance(3)))
    return give_receives(*qp, draw_.between(1, 8));
  // A broken connection still gets some requests, which must all be flushed.
  if (!qp->broken || draw_.chance(8)) post_sends(*qp);
}

void Program::upheaval() {
  Qp* qp = pick_qp();
  if (qp == nullptr) return;
  switch (draw_.below(9)) {
    case 0:
      return to_error(*qp);
    case 1:
      return reset(*qp);
    case 2:
      return destroy(*qp);
    case 3:
    case 4:
      return drain(*qp);
    case 5:
      return renew_region();
    case 6:
      return keys_.deallocate(any_node());
    case 7: {
      uint32_t alive = 0;
      for (auto& node : nodes_)
        for (auto& one : node->qps) alive += one->handle != nullptr ? 1U : 0U;
      if (alive < kQpsMax) return draw_.chance(3) ? add_datagram_qp() : add_pair();
      return;
    }
    default:
      return change_queue(*qp);
  }
}

/// Changes the size or limit of a queue in use.
void Program::change_queue(Qp& qp) {
  Node& node = *qp.node;
  if (node.srqs.empty() || draw_.chance(2)) return resize(*node.cqs[draw_.below(node.cqs.size())]);
  Srq& srq = *node.srqs[draw_.below(node.srqs.size())];
  adapter::SrqAttr attr;
  uint32_t mask = 0;
  if (draw_.chance(3)) {
    attr.wqes = srq.wqes =
        std::max<uint32_t>(static_cast<uint32_t>(srq.receives.size()), draw_.between(1, 48));
    mask |= adapter::kSrqWqes;
    tally_("shared receive queue resized");
  }
  if (mask == 0 || srq.limit > srq.wqes || draw_.chance(2)) {
    attr.limit = srq.limit = draw_.between(1, srq.wqes);
    mask |= adapter::kSrqLimit;
  }
  if (!node.adapter->srqs().modify(*srq.handle, attr, mask))
    model_.fail("a shared receive queue was not changed");
  note(node, fmt::format("a shared receive queue has {} WQEs and limit {}", srq.wqes, srq.limit));
  take_events(node);
}

/// Resizes to a size that holds all possible entries, or to one below the present entries, which must be
/// refused.
void Program::resize(Cq& cq) {
  adapter::ChannelAdapter& adapter = *cq.node->adapter;
  const uint32_t fill = adapter.cqs().query(*cq.handle).fill;
  if (fill > 1 && draw_.chance(3)) {  // sizes are rounded up to powers of two
    if (adapter.cqs().resize(*cq.handle, std::bit_floor(fill - 1)))
      model_.fail("a completion queue became too small for its entries");
    tally_("completion queue not resized");
    return;
  }
  const uint32_t needed = cq.depth - room(cq);
  uint32_t depth = std::max(needed, draw_.between(1, 256));
  cq.depth = depth;
  if (saboteur_ != nullptr) saboteur_->on_resize(depth);
  if (!adapter.cqs().resize(*cq.handle, depth)) model_.fail("a completion queue was not resized");
  note(*cq.node, fmt::format("a completion queue has {} entries", depth));
  tally_("completion queue resized");
}

void Program::take_events(Node& node) {
  std::vector<adapter::AsyncEvent> drained;
  for (adapter::AsyncEvent event; node.adapter->next_event(event);) {
    if (tells_)
      note(node, fmt::format("    event {} of {:06x}, port {}", to_string(event.kind), event.qpn.value(),
                             event.port));
    if (saboteur_ != nullptr && !saboteur_->on_event(event)) continue;
    if (event.kind == adapter::AsyncEventKind::kSqDrained)
      drained.push_back(event);
    else
      model_.event(node, event);
  }
  if (drained.empty()) return;
  // Completions from now on belong to the time after draining.
  poll_dry(node);
  for (const adapter::AsyncEvent& event : drained) model_.event(node, event);
}

void Program::poll_cq(Cq& cq, uint32_t at_most) {
  // Twice the number that is asked for, because a planted bug may duplicate entries.
  std::array<adapter::WorkCompletion, 32> entries;
  const std::span<adapter::WorkCompletion> room(entries.data(),
                                                std::min<size_t>(entries.size() / 2, at_most));
  const uint32_t polled = cq.node->adapter->cqs().poll(*cq.handle, room);
  uint32_t got = polled;
  if (saboteur_ != nullptr) got = saboteur_->on_completions(true, entries, got);
  for (uint32_t i = 0; i < got; ++i) {
    if (tells_)
      note(*cq.node, fmt::format("    wr {} comes back: {}", entries[i].wr_id, to_string(entries[i].status)));
    model_.completed(*cq.node, cq, entries[i]);
  }
  if (polled == room.size()) return;
  bool told = cq.node->adapter->cqs().take_notification(*cq.handle);
  if (saboteur_ != nullptr) saboteur_->on_notification(told);
  model_.polled_dry(cq, told);
  if (cq.armed != adapter::CqNotify::kOff || !polls_.chance(4)) return;
  cq.armed = polls_.chance(2) ? adapter::CqNotify::kNext : adapter::CqNotify::kSolicited;
  cq.node->adapter->cqs().arm(*cq.handle, cq.armed);
}

void Program::look(Node& node) {
  for (auto& cq : node.cqs)
    if (polls_.chance(3)) poll_cq(*cq, polls_.between(1, 16));
}

void Program::poll_dry(Node& node) {
  for (auto& cq : node.cqs) {
    while (node.adapter->cqs().query(*cq->handle).fill != 0) poll_cq(*cq, 16);
    poll_cq(*cq, 1);
  }
}

void Program::to_error(Qp& qp) {
  if (qp.handle == nullptr || qp.life == Life::kReset) return;
  take_events(*qp.node);
  if (qp.life == Life::kError) return;
  const bool exact = draw_.chance(2);
  if (exact) poll_dry(*qp.node);
  adapter::QpAttr attr;
  attr.state = QpState::kErr;
  note(*qp.node, fmt::format("QP {} to error", qp.id));
  model_.stopped(qp, exact);
  modify(qp, attr, adapter::kQpAttrState);
  take_events(*qp.node);
}

/// RESET and destruction remove unpolled completions from the queues and leave their notifications. They also
/// remove the completions of receives of a shared queue, which would make the number of receives in that
/// queue unknown. So the queue is polled first.
void Program::before_reset(Qp& qp) {
  if (qp.srq != nullptr) poll_dry(*qp.node);
  for (Cq* cq : {qp.send_cq, qp.recv_cq}) {
    if (cq == nullptr) continue;
    cq->node->adapter->cqs().arm(*cq->handle, adapter::CqNotify::kOff);
    static_cast<void>(cq->node->adapter->cqs().take_notification(*cq->handle));
    cq->armed = adapter::CqNotify::kOff;
    cq->must_tell = false;
  }
}

void Program::reset(Qp& qp) {
  if (qp.handle == nullptr || qp.life == Life::kReset) return;
  take_events(*qp.node);
  before_reset(qp);
  adapter::QpAttr attr;
  note(*qp.node, fmt::format("QP {} reset", qp.id));
  modify(qp, attr, adapter::kQpAttrState);
  model_.forgotten(qp);
  take_events(*qp.node);
}

void Program::destroy(Qp& qp) {
  take_events(*qp.node);
  before_reset(qp);
  note(*qp.node, fmt::format("QP {} destroyed", qp.id));
  if (!qp.node->adapter->destroy_qp(qp.handle)) model_.fail("a QP was not destroyed");
  qp.handle = nullptr;
  model_.forgotten(qp);
  touched_ |= uint64_t{1} << qp.node->place;
}

void Program::drain(Qp& qp) {
  take_events(*qp.node);
  // No event reports a failed send queue without acknowledgements.
  if (!qp.acknowledged()) poll_dry(*qp.node);
  if (qp.life != Life::kReady || qp.is_target()) return;
  adapter::QpAttr attr;
  attr.state = QpState::kSqd;
  attr.sqd_notify = true;
  note(*qp.node, fmt::format("QP {} drains", qp.id));
  qp.life = Life::kDraining;
  modify(qp, attr, adapter::kQpAttrState | adapter::kQpAttrSqdNotify);
  take_events(*qp.node);
  poll_dry(*qp.node);
}

void Program::resume(Qp& qp) {
  take_events(*qp.node);
  poll_dry(*qp.node);
  if (qp.life != Life::kDrained && qp.life != Life::kSendError && qp.life != Life::kDraining) return;
  adapter::QpAttr attr;
  attr.state = QpState::kRts;
  note(*qp.node, fmt::format("QP {} goes on", qp.id));
  qp.life = Life::kReady;
  qp.failed = false;
  if (!qp.acknowledged()) qp.broken = !qp.receiving;
  modify(qp, attr, adapter::kQpAttrState);
}

/// Ends a connection with a broken end and starts it again.
void Program::repair() {
  Qp* qp = nullptr;
  for (uint32_t i = 0; i < 4 && (qp == nullptr || !qp->broken); ++i) qp = pick_qp();
  if (qp == nullptr || !qp->broken) return;
  std::vector<Qp*> ends{qp};
  if (qp->peer != nullptr) ends.push_back(qp->peer);
  const bool impatient = draw_.chance(6);
  bool flushed = true;
  bool whole = true;
  for (Qp* end : ends) {
    if (end->handle == nullptr) {
      whole = false;
      continue;
    }
    if (!impatient) {
      to_error(*end);
      poll_dry(*end->node);
      if (end->life == Life::kError) model_.retire_silent(*end);
    }
    flushed = flushed && end->sends.empty() && end->receives.empty();
  }
  if (!flushed && !impatient) return;
  for (Qp* end : ends)
    if (end->handle != nullptr) whole && !draw_.chance(8) ? reset(*end) : destroy(*end);
  whole = std::all_of(ends.begin(), ends.end(), [](const Qp* end) { return end->handle != nullptr; });
  if (whole) {
    connect(*qp);
    return;
  }
  for (Qp* end : ends)
    if (end->handle != nullptr) destroy(*end);
  if (qp->peer == nullptr) return add_datagram_qp();
  adapter::is_xrc(qp->config.type) ? add_extended_pair() : add_pair();
}

/// Registers memory again under other keys, also while requests use it.
void Program::renew_region() {
  Node& node = any_node();
  Region& region = *node.regions[draw_.below(node.regions.size())];
  if (region.reserved ? region.under_way || region.key == nullptr : !region.registered) return;
  const bool dead = node.adapter->memory().regions.dereg_mr(region.mr.lkey).ok();
  if (!dead) return;  // windows are bound to the region
  note(node, "a region is deregistered and registered again");
  model_.deregistered(region);
  region.registered = false;
  if (region.reserved) return keys_.reserve(region);
  if (!register_region(region)) return;
  tally_("region renewed");
}

/// True if a message waits for a receive of this QP, even one that will be refused.
bool Program::hungry(const Qp& qp) const {
  const auto waits = [&](const SendPtr& send) { return send->to == &qp && send->takes_receive(); };
  const bool coming = std::any_of(qp.coming.begin(), qp.coming.end(),
                                  [](const auto& messages) { return !messages.second.empty(); });
  return coming || std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
           return std::any_of(node->qps.begin(), node->qps.end(), [&](const auto& from) {
             return std::any_of(from->sends.begin(), from->sends.end(), waits);
           });
         });
}

/// True if the peer has failed or is gone, so that the QP must fail when its retries get no answer.
bool Program::owes(const Qp& qp) {
  if (!qp.connected() || !qp.acknowledged() || qp.handle == nullptr || qp.life != Life::kReady) return false;
  return !qp.failed && !qp.sends.empty() && qp.sends.back()->signaled && !qp.peer->receiving;
}

void Program::tidy() {
  for (auto& node : nodes_) {
    for (auto& qp : node->qps) {
      if (qp->handle == nullptr || qp->life == Life::kReset) continue;
      if (qp->life == Life::kDrained || qp->life == Life::kSendError || qp->life == Life::kDraining)
        resume(*qp);
      if (qp->broken && qp->life != Life::kError && !owes(*qp)) to_error(*qp);
      if (qp->receiving && hungry(*qp)) feed(*qp);
    }
  }
}

/// Posts receives for waiting messages. If abandoned messages of UC QPs may hold all receives of a shared
/// queue, these QPs are moved to the error state, which gives the receives back to the other QPs.
void Program::feed(Qp& qp) {
  std::vector<Srq*> queues{qp.srq};
  if (qp.is_target()) {
    queues.clear();
    for (const SendPtr& send : qp.peer->sends)
      if (send->takes_receive() && send->to == &qp) queues.push_back(send->srq);
  }
  for (Srq* srq : queues) {
    for (uint32_t i = 0; i < 4; ++i) post_receive(qp, srq, true);
    if (srq == nullptr) continue;
    size_t held = 0;
    for (const auto& other : qp.node->qps) {
      const bool halves = other->config.type == adapter::QpType::kUc && other->receiving;
      if (halves && other.get() != &qp && other->takes_from(*srq)) ++held;
    }
    if (held == 0 || srq->receives.size() > held) continue;
    for (const auto& other : qp.node->qps)
      if (other->config.type == adapter::QpType::kUc && other->takes_from(*srq)) to_error(*other);
  }
  const bool none = std::any_of(queues.begin(), queues.end(), [&](const Srq* srq) {
    return srq != nullptr ? srq->receives.empty() : qp.receives.empty();
  });
  if (none) to_error(qp);  // other requests hold all room in its queues for ever
}

void Program::feed_hungry() {
  for (auto& node : nodes_)
    for (auto& qp : node->qps)
      if (qp->handle != nullptr && qp->life != Life::kReset && qp->receiving && hungry(*qp)) feed(*qp);
}

const Send* Program::waits() const {
  for (const auto& node : nodes_)
    for (const auto& qp : node->qps)
      if ((qp->handle != nullptr && !qp->broken && !qp->sends.empty() && qp->sends.back()->signaled) ||
          owes(*qp))
        return qp->sends.front().get();
  return nullptr;
}

void Program::join_partitions() {
  for (auto& node : nodes_) {
    for (uint8_t port = 1; node->adapter != nullptr && port <= node->links.size(); ++port)
      if (model_.links().is_alone(node->links[port - 1U])) set_partitions(*node, port, false);
  }
}

void Program::end() {
  for (auto& node : nodes_) {
    if (node->adapter != nullptr) poll_dry(*node);
    for (auto& qp : node->qps) to_error(*qp);
  }
  for (auto& node : nodes_) {
    if (node->adapter == nullptr) continue;
    take_events(*node);
    poll_dry(*node);
  }
}

}  // namespace weft::sim::verbs
