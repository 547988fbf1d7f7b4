// Work requests of a program: their data, their targets, and the statuses in which they may end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "adapter/queues/shared_receives.h"
#include "sim/verbs/program.h"

namespace weft::sim::verbs {

using adapter::Access;
using adapter::PostResult;
using adapter::QpType;
using adapter::SendOpcode;
using adapter::WcStatus;

namespace {

constexpr uint32_t kInlineMax = 200;
constexpr uint32_t kUnknownFlag = 1U << 9;

/// The right that a key needs for this request.
Access right_of(const Send& send) noexcept {
  if (send.is_atomic()) return Access::kRemoteAtomic;
  return send.opcode == SendOpcode::kRdmaRead ? Access::kRemoteRead : Access::kRemoteWrite;
}

}  // namespace

void Program::note(const Node& node, std::string text) {
  if (tells_) history_.emplace_back(number_, fmt::format("node {}: {}", node.number, std::move(text)));
}

/// Posts a receive to the QP's queue or to the shared one.
void Program::post_receive(Qp& qp, Srq* srq, bool may_be_wrong) {
  const size_t waiting = srq != nullptr ? srq->receives.size() : qp.receives.size();
  const size_t limit = srq != nullptr ? srq->wqes : qp.config.recv_wqes;
  if (waiting >= limit || !qp.may_post()) return;
  for (const auto& other : qp.node->qps) {
    const bool completes =
        other->handle != nullptr && (other.get() == &qp || (srq != nullptr && other->srq == srq));
    const Cq* cq = srq != nullptr && srq->cq != nullptr ? srq->cq : other->recv_cq;
    if (completes && room(*cq) == 0) return;
  }
  auto receive = std::make_shared<Receive>();
  receive->wr_id = next_wr_id_++;
  receive->srq = srq;
  const bool wrong = may_be_wrong && draw_.chance(8) && draw_.below(1'000'000) < plan_.wrong_ppm * 8;
  const uint32_t longest =
      qp.connected() ? plan_.bytes_max : std::min(plan_.bytes_max, plan_.fabric.cell_payload_bytes);
  receive->capacity = wrong && draw_.chance(2) ? draw_.below(longest) : longest;
  const adapter::PdId pd = srq != nullptr ? srq->pd : qp.config.pd;
  const uint32_t pieces = draw_.chance(2) ? 1 : draw_.between(1, kSegmentsMax);
  const uint32_t pieces_max = srq != nullptr ? 4 : pieces;
  if (!lease(draw_, *qp.node, pd, receive->capacity, std::min(pieces, pieces_max), true, receive->pieces))
    return;
  std::vector<adapter::Sge> sges = segments(receive->pieces, false);
  if (wrong && receive->capacity == longest) {
    receive->unusable = true;
    for (adapter::Sge& sge : sges) sge.lkey = Lkey(sge.lkey.value() ^ 0x10);
  }
  const adapter::RecvRequest request{receive->wr_id, sges};
  adapter::ChannelAdapter& adapter = *qp.node->adapter;
  const PostResult result = srq != nullptr ? adapter.srqs().post_recv(*srq->handle, request)
                                           : adapter.post_recv(*qp.handle, request);
  touched_ |= uint64_t{1} << qp.node->place;
  if (result != PostResult::kOk) {
    give_back(receive->pieces);
    return model_.fail(fmt::format("a receive on QP {} was refused: {}", qp.id, to_string(result)));
  }
  for (auto& other : qp.node->qps) {
    if (other.get() != &qp && (srq == nullptr || !other->takes_from(*srq))) continue;
    other->shortest_receive = std::min(other->shortest_receive, receive->capacity);
    other->unusable_receives = other->unusable_receives || receive->unusable;
  }
  note(*qp.node,
       fmt::format("QP {} receive wr {}, {} bytes in {} pieces{}{}", qp.id, receive->wr_id, receive->capacity,
                   receive->pieces.size(), receive->unusable ? ", wrong key" : "",
                   srq != nullptr ? fmt::format(", queue {:x}", srq->number) : ""));
  if (srq != nullptr)
    srq->receives[receive->wr_id] = receive;
  else
    qp.receives.push_back(receive);
  take_events(*qp.node);  // a message that waited for it may have failed at once
}

SendOpcode Program::draw_opcode(QpType type) {
  using S = SendOpcode;
  switch (type) {
    case QpType::kRc:
    case QpType::kXrcSend:
      return draw_.pick(std::array{S::kSend, S::kSend, S::kSendWithImm, S::kSendWithInvalidate,
                                   S::kSendWithInvalidate, S::kRdmaWrite, S::kRdmaWrite, S::kRdmaWrite,
                                   S::kRdmaWriteWithImm, S::kRdmaRead, S::kRdmaRead, S::kCompareSwap,
                                   S::kFetchAdd, S::kBindWindow, S::kBindWindow, S::kUnbindWindow,
                                   S::kLocalInvalidate, S::kRegister, S::kDelay});
    case QpType::kUc:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm, S::kRdmaWrite, S::kRdmaWriteWithImm,
                                   S::kRdmaWrite, S::kSend, S::kBindWindow, S::kLocalInvalidate,
                                   S::kRegister});
    case QpType::kRd:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm, S::kRdmaWrite, S::kRdmaWriteWithImm,
                                   S::kSendWithInvalidate, S::kSend});
    default:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm});
  }
}

/// Chooses a place in the peer's memory for a write, read or atomic operation.
void Program::draft_remote(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  Qp& to = *send.to;
  const bool read = send.opcode == SendOpcode::kRdmaRead;
  const Access right = right_of(send);
  const KeyPtr key = keys_.pick(to, domain_of(send), right);
  if (key == nullptr) {
    send.length = ~uint64_t{0};
    return;
  }
  send.key = key;
  Region& region = *key->region;
  draft.request.rkey = key->rkey;
  uint64_t offset = 0;
  if (send.is_atomic()) {
    auto& [at, word] = region.words[draw_.below(region.words.size())];
    offset = at;
    send.word = &word;
  } else {
    auto& [at, patch] = region.patches[draw_.below(region.patches.size())];
    if (plan_.long_bytes_max != 0 && qp.connected() && draw_.chance(4))
      send.length = draw_.below(plan_.long_bytes_max + 1);
    send.length = std::min(send.length, patch.length());
    // Most writes begin at one of four offsets, so that they overlap.
    const uint64_t free = patch.length() - send.length;
    send.patch_at =
        draw_.chance(2) ? std::min<uint64_t>(free, uint64_t{draw_.below(4)} * 64) : draw_.below(free + 1);
    send.patch = &patch;
    offset = at + send.patch_at;
  }
  send.remote_addr = draft.request.remote_addr = region.mr.addr + offset;
  // The key is checked only if the request moves bytes.
  const bool inside =
      send.length == 0 || (offset >= key->begin && offset + send.length <= key->begin + key->length);
  const bool granted =
      has(qp.peer != nullptr || qp.config.type == QpType::kRd ? to.rights : Access::kNone, right);
  if (granted && inside) {
    if (key->state == Key::State::kEnding && qp.acknowledged()) send.allow(WcStatus::kRemoteAccess);
    if (key->state == Key::State::kEnding && read) send.allow(WcStatus::kRetryExceeded);
    return;
  }
  send.refused = true;
  const uint64_t from = std::max(offset, key->begin);
  const uint64_t to_end = std::min(offset + send.length, key->begin + key->length);
  // Each packet is admitted or refused separately.
  if (granted && send.is_write() && from < to_end) {
    send.partly = true;
    send.patch_from = from - offset;
    send.patch_bytes = to_end - from;
  }
  if (!qp.acknowledged()) return;
  send.allow_only(!granted ? WcStatus::kRemoteInvalidRequest : WcStatus::kRemoteAccess);
}

/// Makes the request wrong in some way, so that it must fail.
void Program::draft_wrong(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  const bool remote = send.is_write() || send.opcode == SendOpcode::kRdmaRead || send.is_atomic();
  if (remote && send.length == 0) return;
  if (qp.is_initiator() && draw_.chance(3)) return wrong_queue(draft);
  if (remote && draw_.chance(2) && !send.refused) {
    const bool key = draw_.chance(2);
    const KeyPtr useless =
        draw_.chance(2) ? keys_.pick_useless(*send.to, domain_of(send), right_of(send)) : nullptr;
    if (useless != nullptr) {
      draft.request.rkey = useless->rkey;
      tally_(useless->region->node.adapter != nullptr ? "key that opens nothing"
                                                      : "key of a node that is no more");
    } else if (key) {
      draft.request.rkey = Rkey(draft.request.rkey.value() ^ (1U << draw_.below(8)));
    } else {
      draft.request.remote_addr = send.key->region->mr.addr + send.key->region->bytes + 8 * draw_.below(100);
      send.allow(WcStatus::kRemoteAccess);
    }
    send.refused = true;
    send.partly = false;
    if (qp.acknowledged()) send.allow_only(WcStatus::kRemoteAccess);
    if (useless == nullptr) tally_(key ? "wrong remote key" : "wrong remote address");
    return;
  }
  if (send.opcode == SendOpcode::kSendWithInvalidate && qp.connected()) return wrong_invalidation(draft);
  if (qp.config.type == QpType::kUd || qp.config.type == QpType::kRd) {
    draft.request.dest.qkey ^= 0x77;
    send.refused = true;
    if (qp.acknowledged()) send.allow_only(WcStatus::kRemoteInvalidRequest);
    tally_("wrong Q_Key");
    return;
  }
  wrong_segment(draft);
}

/// Names a shared receive queue that does not belong to the target's domain.
void Program::wrong_queue(Draft& draft) {
  Send& send = *draft.send;
  std::vector<uint32_t> others;
  for (const auto& srq : send.to->node->srqs)
    if (srq->cq != nullptr && !send.to->takes_from(*srq)) others.push_back(srq->number);
  const bool of_another = !others.empty() && draw_.chance(2);
  draft.request.srq = of_another ? others[draw_.below(others.size())] : draft.request.srq ^ 0x1000U;
  send.refused = true;
  send.partly = false;
  send.allow_only(WcStatus::kRemoteInvalidRequest);
  tally_("wrong shared receive queue");
}

/// Names a key that the peer does not allow others to invalidate.
void Program::wrong_invalidation(Draft& draft) {
  Send& send = *draft.send;
  const KeyPtr useless = keys_.pick_useless(*send.to, domain_of(send), Access::kNone);
  if (useless == nullptr) return;
  draft.request.rkey = useless->rkey;
  draft.request.imm = useless->rkey.value();
  send.key = useless;
  send.refused = true;
  send.allow_only(WcStatus::kRemoteAccess);
  tally_("invalidation of a key that opens nothing");
}

void Program::wrong_segment(Draft& draft) {
  Send& send = *draft.send;
  for (size_t i = 0; i < draft.sges.size(); ++i) {
    if (draft.sges[i].length == 0 || (send.flags & adapter::kSendInline) != 0) continue;
    if (draw_.chance(2)) {
      draft.sges[i].lkey = Lkey(draft.sges[i].lkey.value() ^ (1U << draw_.below(8)));
      tally_("wrong local key");
    } else {
      draft.sges[i].addr =
          send.pieces[i].region->mr.addr + send.pieces[i].region->bytes - draft.sges[i].length + 1;
      tally_("wrong local address");
    }
    send.refused = true;
    send.partly = false;
    send.lawful = bit_of(WcStatus::kLocalProtection);
    return;
  }
}

/// A datagram may go to any QP of its service.
void Program::address(const Qp& qp, Draft& draft) {
  // Sometimes to a QP of a node that has ended; another node may have its LID.
  const bool to_the_dead = plan_.life_ppm != 0 && draw_.chance(4);
  std::vector<Qp*> others;
  std::vector<Qp*> dead;
  for (auto& node : nodes_)
    for (auto& other : node->qps) {
      if (other->config.type != qp.config.type) continue;
      if (other->handle != nullptr) others.push_back(other.get());
      if (node->adapter == nullptr) dead.push_back(other.get());
    }
  if (to_the_dead && !dead.empty()) {
    others = dead;
    tally_("datagram to a node that is no more");
  }
  draft.send->to = others[draw_.below(others.size())];
  draft.send->to_lid = draft.send->to->lid;
  draft.request.dest = {draft.send->to->lid, draft.send->to->qpn, draft.send->to->qkey, ServiceLevel(0)};
}

bool Program::draft_send(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  send.wr_id = next_wr_id_++;
  send.opcode = draw_opcode(qp.config.type);
  send.signaled = qp.config.signal_all || draw_.chance(2) || qp.sends.size() + 1 >= qp.config.send_wqes;
  send.flags = (send.signaled ? adapter::kSendSignaled : 0U) |
               (draw_.chance(4) ? adapter::kSendSolicited : 0U) |
               (draw_.chance(6) ? adapter::kSendFence : 0U);
  send.imm = draw_.below(uint64_t{1} << 32);
  send.to = qp.peer;
  if (qp.peer == nullptr) address(qp, draft);
  if (qp.is_initiator()) {
    const std::vector<Srq*> queues = qp.peer->shared_queues();
    send.srq = queues[draw_.below(queues.size())];
    draft.request.srq = send.srq->number;
  }
  const bool moves =
      static_cast<uint32_t>(send.opcode) < static_cast<uint32_t>(SendOpcode::kLocalInvalidate) ||
      send.opcode == SendOpcode::kSendWithInvalidate;
  if (!moves) {
    keys_.draft(qp, draft, draw_.below(1'000'000) < plan_.wrong_ppm * 2);
    return true;
  }
  send.allow(WcStatus::kSuccess);
  if (qp.acknowledged() && qp.rnr_retry < 7 && send.takes_receive()) send.allow(WcStatus::kRnrRetryExceeded);
  const uint32_t longest =
      qp.connected() ? plan_.bytes_max : std::min(plan_.bytes_max, plan_.fabric.cell_payload_bytes);
  send.length = draw_.chance(12)  ? 0
                : draw_.chance(3) ? draw_.between(1, std::min(longest, 64U))
                                  : draw_.below(longest + 1);
  // Datagrams and unacknowledged messages are distinguished by their bytes or immediate data.
  const bool in_order = qp.connected() && !qp.is_initiator();
  const bool told_apart = qp.acknowledged() && (in_order || !send.is_send());
  if (!told_apart && send.length < kWordBytes) send.opcode = SendOpcode::kSendWithImm;
  if (send.is_atomic()) send.length = kWordBytes;
  if (send.opcode == SendOpcode::kSendWithInvalidate) {
    const KeyPtr key = keys_.pick(*send.to, domain_of(send), Access::kRemoteWrite);
    if (key == nullptr || !KeyDraws::peers_end(*key)) {
      send.opcode = SendOpcode::kSend;
    } else {
      send.key = key;
      draft.request.rkey = key->rkey;
      draft.request.imm = key->rkey.value();
    }
  }
  if (!send.is_send()) draft_remote(qp, draft);
  if (send.length == ~uint64_t{0}) return false;
  const bool brings = send.opcode == SendOpcode::kRdmaRead || send.is_atomic();
  const uint32_t pieces = send.length == 0  ? draw_.below(3)
                          : draw_.chance(2) ? 1
                                            : draw_.between(1, kSegmentsMax);
  if (!lease(draw_, *qp.node, qp.config.pd, send.length, pieces, brings, send.pieces)) return false;
  if (!brings) {
    for (const Piece& piece : send.pieces) {
      const std::byte* from = piece.region->at(piece.offset);
      send.data.insert(send.data.end(), from, from + piece.length);
    }
  }
  if (!brings && send.length <= kInlineMax && draw_.chance(3)) send.flags |= adapter::kSendInline;
  draft.sges = segments(send.pieces, (send.flags & adapter::kSendInline) != 0);
  const bool known_from_before = send.to->node->succeeds && draw_.chance(4);
  if (draw_.below(1'000'000) < plan_.wrong_ppm || known_from_before) draft_wrong(qp, draft);
  return true;
}

/// Fills in the remaining fields of the adapter's request.
void Program::finish_request(Draft& draft) {
  const Send& send = *draft.send;
  adapter::SendRequest& request = draft.request;
  request.wr_id = send.wr_id;
  request.opcode = send.opcode;
  request.flags = send.flags;
  if (send.executes_here) request.flags &= adapter::kSendFence | adapter::kSendSignaled;
  request.sges = draft.sges;
  if (send.has_imm()) request.imm = send.imm;
  if (!send.is_atomic()) return;
  request.compare = draw_.chance(2) ? 0 : draw_.below(uint64_t{1} << 32);
  request.operand = draw_.below(uint64_t{1} << 32);
}

void Program::post_sends(Qp& qp) {
  const uint32_t count = draw_.chance(3) ? draw_.between(1, 8) : 1;
  const bool as_list = draw_.chance(3);
  std::deque<Draft> drafts;  // own the segments that the list refers to
  std::vector<adapter::SendRequest> list;
  for (uint32_t i = 0; i < count; ++i) {
    if (qp.sends.size() >= qp.config.send_wqes || room(*qp.send_cq) == 0) break;
    Draft& draft = drafts.emplace_back();
    Send& send = *draft.send;
    if (!draft_send(qp, draft)) {
      give_back(send.pieces);
      drafts.pop_back();
      continue;
    }
    finish_request(draft);
    list.push_back(draft.request);
    model_.posted(qp, draft.send);
    if (send.word != nullptr) {
      send.name = send.word->open({0, send.place, send.begin, kOpen, send.opcode == SendOpcode::kCompareSwap,
                                   draft.request.compare, draft.request.operand, false, 0});
    }
    keys_.posted(send);
    if (tells_) note(*qp.node, "post " + describe(send));
    if (as_list) continue;
    hand_over(qp, list);
    list.clear();
  }
  if (as_list) hand_over_list(qp, list);
}

void Program::hand_over(Qp& qp, std::vector<adapter::SendRequest>& list) {
  if (saboteur_ != nullptr) saboteur_->on_requests(list);
  for (const adapter::SendRequest& request : list) {
    const PostResult result = qp.node->adapter->post_send(*qp.handle, request);
    if (result != PostResult::kOk)
      model_.fail(fmt::format("wr {} ({}) was refused: {}", request.wr_id, name_of(request.opcode),
                              to_string(result)));
  }
  touched_ |= uint64_t{1} << qp.node->place;
}

/// Posts all requests as one list. Sometimes an invalid request follows the good ones, and another one
/// follows that.
void Program::hand_over_list(Qp& qp, std::vector<adapter::SendRequest>& list) {
  const size_t good = list.size();
  const std::array<adapter::Sge, kSegmentsMax + 1> too_many{};
  const bool with_bad = draw_.chance(4);
  if (with_bad) {
    adapter::SendRequest bad{.wr_id = next_wr_id_++, .opcode = SendOpcode::kSend};
    if (draw_.chance(2))
      bad.flags = kUnknownFlag;
    else
      bad.sges = too_many;
    list.push_back(bad);
    list.push_back({.wr_id = next_wr_id_++, .opcode = SendOpcode::kDelay, .flags = adapter::kSendSignaled});
    tally_("list with a bad request");
  }
  if (list.empty()) return;
  if (saboteur_ != nullptr) saboteur_->on_requests(list);
  size_t accepted = 0;
  const PostResult result = qp.node->adapter->post_send(*qp.handle, list, accepted);
  touched_ |= uint64_t{1} << qp.node->place;
  if (accepted != good || (result == PostResult::kOk) != (accepted == list.size()))
    model_.fail(fmt::format("of a list of {} with {} good requests {} were taken: {}", list.size(), good,
                            accepted, to_string(result)));
}

}  // namespace weft::sim::verbs
