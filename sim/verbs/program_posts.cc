// Work requests of a program: what they move, where, and what they may lawfully end in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

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
constexpr uint64_t kGuardBytes = 16;
constexpr uint32_t kSegmentsMax = 16;
constexpr uint32_t kWordBytes = 8;

}  // namespace

struct Program::Draft {
  SendPtr send = std::make_shared<Send>();
  adapter::SendRequest request;
  std::vector<adapter::Sge> sges;
};

void Program::note(const Node& node, std::string text) {
  if (tells_) history_.emplace_back(number_, fmt::format("node {}: {}", node.number, std::move(text)));
}

/// Entries that are still free for certain: every request that has not come back may need one.
uint32_t Program::room(const Cq& cq) const {
  size_t taken = 0;
  for (const auto& qp : cq.node->qps) {
    if (qp->send_cq == &cq) taken += qp->sends.size();
    if (qp->recv_cq == &cq)
      taken += qp->receives.size() + (qp->srq != nullptr ? qp->srq->receives.size() : 0);
  }
  return taken >= cq.depth ? 0 : cq.depth - static_cast<uint32_t>(taken);
}

/// Memory for one request alone, in up to `pieces` parts, with bytes that it may not touch between.
bool Program::lease(Node& node, adapter::PdId pd, uint64_t length, uint32_t pieces, bool may_change,
                    std::vector<Piece>& out) {
  std::vector<Region*> regions;
  for (auto& region : node.regions) {
    if (region->pd == pd && region->registered) regions.push_back(region.get());
  }
  if (regions.empty()) return false;
  for (uint64_t left = length, part = 0; part < pieces; ++part) {
    const bool last = part + 1 == pieces;
    const auto bytes = static_cast<uint32_t>(last ? left : draw_.below(left + 1));
    Region& region = *regions[draw_.below(regions.size())];
    left -= bytes;
    if (bytes + 2 * kGuardBytes >= region.own) return give_back(out), false;
    uint64_t offset = 0;
    bool found = false;
    for (uint32_t attempt = 0; attempt < 12 && !found; ++attempt) {
      offset = kGuardBytes + draw_.below(region.own - bytes - 2 * kGuardBytes);
      const auto next = region.lent.lower_bound(offset);
      found = next == region.lent.end() || next->first >= offset + bytes + kGuardBytes;
      if (!found || next == region.lent.begin()) continue;
      const auto before = std::prev(next);
      found = before->first + before->second.first + kGuardBytes <= offset;
    }
    if (!found) return give_back(out), false;
    region.lent[offset] = {bytes, may_change};
    out.push_back({&region, offset, bytes});
  }
  // What is there before is never what comes.
  for (const Piece& piece : out) {
    for (uint64_t at = 0; at < piece.length; at += kWordBytes) {
      const uint64_t value = uint64_t{draw_.below(uint64_t{1} << 32)} << 32 | draw_.below(uint64_t{1} << 32);
      const uint64_t bytes = std::min<uint64_t>(kWordBytes, piece.length - at);
      std::memcpy(piece.region->at(piece.offset + at), &value, bytes);
      piece.region->accept(piece.offset + at, bytes);
    }
  }
  return true;
}

void Program::give_back(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    piece.region->accept(piece.offset, piece.length);
    piece.region->lent.erase(piece.offset);
  }
}

std::vector<adapter::Sge> Program::segments(const std::vector<Piece>& pieces, bool by_pointer) const {
  std::vector<adapter::Sge> sges;
  for (const Piece& piece : pieces) {
    Region& region = *piece.region;
    const uint64_t addr =
        by_pointer ? reinterpret_cast<uintptr_t>(region.at(piece.offset)) : region.mr.addr + piece.offset;
    sges.push_back({addr, piece.length, by_pointer ? Lkey() : region.mr.lkey});
  }
  return sges;
}

void Program::post_receive(Qp& qp, bool may_be_wrong) {
  Srq* srq = qp.srq;
  const size_t waiting = srq != nullptr ? srq->receives.size() : qp.receives.size();
  const size_t limit = srq != nullptr ? srq->wqes : qp.config.recv_wqes;
  if (waiting >= limit || !qp.may_post()) return;
  for (const auto& other : qp.node->qps) {
    const bool completes =
        other->handle != nullptr && (other.get() == &qp || (srq != nullptr && other->srq == srq));
    if (completes && room(*other->recv_cq) == 0) return;
  }
  auto receive = std::make_shared<Receive>();
  receive->wr_id = next_wr_id_++;
  const bool wrong = may_be_wrong && draw_.chance(8) && draw_.below(1'000'000) < plan_.wrong_ppm * 8;
  const uint32_t longest =
      qp.connected() ? plan_.bytes_max : std::min(plan_.bytes_max, plan_.fabric.cell_payload_bytes);
  receive->capacity = wrong && draw_.chance(2) ? draw_.below(longest) : longest;
  const adapter::PdId pd = srq != nullptr ? srq->pd : qp.config.pd;
  const uint32_t pieces = draw_.chance(2) ? 1 : draw_.between(1, kSegmentsMax);
  const uint32_t pieces_max = srq != nullptr ? 4 : pieces;
  if (!lease(*qp.node, pd, receive->capacity, std::min(pieces, pieces_max), true, receive->pieces)) return;
  std::vector<adapter::Sge> sges = segments(receive->pieces, false);
  if (wrong && receive->capacity == longest) {
    receive->unusable = true;
    for (adapter::Sge& sge : sges) sge.lkey = Lkey(sge.lkey.value() ^ 0x10);
  }
  const adapter::RecvRequest request{receive->wr_id, sges};
  adapter::ChannelAdapter& adapter = *qp.node->adapter;
  const PostResult result = srq != nullptr ? adapter.srqs().post_recv(*srq->handle, request)
                                           : adapter.post_recv(*qp.handle, request);
  touched_ |= uint64_t{1} << qp.node->number;
  if (result != PostResult::kOk) {
    give_back(receive->pieces);
    return model_.fail(fmt::format("a receive on QP {} was refused: {}", qp.id, to_string(result)));
  }
  for (auto& other : qp.node->qps) {
    if (other.get() != &qp && (srq == nullptr || other->srq != srq)) continue;
    other->shortest_receive = std::min(other->shortest_receive, receive->capacity);
    other->unusable_receives = other->unusable_receives || receive->unusable;
  }
  note(*qp.node,
       fmt::format("QP {} receive wr {}, {} bytes in {} pieces{}", qp.id, receive->wr_id, receive->capacity,
                   receive->pieces.size(), receive->unusable ? ", wrong key" : ""));
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
      return draw_.pick(std::array{S::kSend, S::kSend, S::kSendWithImm, S::kSendWithInvalidate, S::kRdmaWrite,
                                   S::kRdmaWrite, S::kRdmaWrite, S::kRdmaWriteWithImm, S::kRdmaRead,
                                   S::kRdmaRead, S::kCompareSwap, S::kFetchAdd, S::kBindWindow,
                                   S::kUnbindWindow, S::kLocalInvalidate, S::kDelay});
    case QpType::kUc:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm, S::kRdmaWrite, S::kRdmaWriteWithImm,
                                   S::kRdmaWrite, S::kSend, S::kBindWindow, S::kLocalInvalidate});
    case QpType::kRd:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm, S::kRdmaWrite, S::kRdmaWriteWithImm,
                                   S::kSendWithInvalidate, S::kSend});
    default:
      return draw_.pick(std::array{S::kSend, S::kSendWithImm});
  }
}

/// A good key of this domain that gives the right; null when there is none.
KeyPtr Program::pick_key(Node& node, adapter::PdId pd, Access right) {
  std::vector<KeyPtr> keys;
  for (auto& region : node.regions)
    if (region->pd == pd && region->registered && !region->patches.empty()) keys.push_back(region->key);
  for (const KeyPtr& window : node.windows)
    if (window->region != nullptr && window->region->pd == pd) keys.push_back(window);
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [&](const KeyPtr& key) {
                              return !has(key->rights, right) ||
                                     (key->state != Key::State::kGood && key->state != Key::State::kEnding);
                            }),
             keys.end());
  return keys.empty() ? nullptr : keys[draw_.below(keys.size())];
}

/// A place in memory of the peer, for writes, reads and atomic operations.
void Program::draft_remote(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  Qp& to = *send.to;
  const bool read = send.opcode == SendOpcode::kRdmaRead;
  const Access right = send.is_atomic() ? Access::kRemoteAtomic
                       : read           ? Access::kRemoteRead
                                        : Access::kRemoteWrite;
  const KeyPtr key = pick_key(*to.node, to.config.pd, right);
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
    send.length = std::min(send.length, patch.length());
    // Writes meet: most begin at one of a few places.
    const uint64_t free = patch.length() - send.length;
    send.patch_at =
        draw_.chance(2) ? std::min<uint64_t>(free, uint64_t{draw_.below(4)} * 64) : draw_.below(free + 1);
    send.patch = &patch;
    offset = at + send.patch_at;
  }
  send.remote_addr = draft.request.remote_addr = region.mr.addr + offset;
  // A key is looked at only where bytes move.
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
  // Each packet is let in or not by itself.
  if (granted && send.is_write() && from < to_end) {
    send.partly = true;
    send.patch_from = from - offset;
    send.patch_bytes = to_end - from;
  }
  if (!qp.acknowledged()) return;
  send.allow_only(!granted ? WcStatus::kRemoteInvalidRequest : WcStatus::kRemoteAccess);
}

/// Something about the request is wrong, and it cannot end well.
void Program::draft_wrong(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  const bool remote = send.is_write() || send.opcode == SendOpcode::kRdmaRead || send.is_atomic();
  if (remote && send.length == 0) return;
  if (remote && draw_.chance(2) && !send.refused) {
    const bool key = draw_.chance(2);
    if (key) {
      draft.request.rkey = Rkey(draft.request.rkey.value() ^ (1U << draw_.below(8)));
    } else {
      draft.request.remote_addr = send.key->region->mr.addr + send.key->region->bytes + 8 * draw_.below(100);
      send.allow(WcStatus::kRemoteAccess);
    }
    send.refused = true;
    send.partly = false;
    if (qp.acknowledged()) send.allow_only(WcStatus::kRemoteAccess);
    tally_(key ? "wrong remote key" : "wrong remote address");
    return;
  }
  if (qp.config.type == QpType::kUd || qp.config.type == QpType::kRd) {
    draft.request.dest.qkey ^= 0x77;
    send.refused = true;
    if (qp.acknowledged()) send.allow_only(WcStatus::kRemoteInvalidRequest);
    tally_("wrong Q_Key");
    return;
  }
  wrong_segment(draft);
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

/// Bind, unbind and invalidation: windows are of the node that posts them.
void Program::draft_window(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  Node& node = *qp.node;
  send.executes_here = true;
  send.allow(WcStatus::kSuccess);
  send.length = 0;
  if (send.opcode == SendOpcode::kDelay) {
    draft.request.delay = draw_.between(Duration(0), Duration(20'000));
    return;
  }
  if (send.opcode == SendOpcode::kBindWindow) {
    std::vector<Region*> regions;
    for (auto& region : node.regions)
      if (region->pd == qp.config.pd && region->registered && !region->patches.empty())
        regions.push_back(region.get());
    auto made = node.adapter->memory().alloc_rkey(qp.config.pd);
    if (regions.empty() || !made.ok()) {
      send.opcode = SendOpcode::kDelay;
      return;
    }
    Region& region = *regions[draw_.below(regions.size())];
    auto key = std::make_shared<Key>();
    key->rkey = made.value();
    key->region = &region;
    key->begin = draw_.chance(2) ? 0 : draw_.below(region.bytes);
    key->length = draw_.chance(2) ? region.bytes - key->begin : 1 + draw_.below(region.bytes - key->begin);
    key->rights = region.rights == Access::kNone
                      ? Access::kNone
                      : static_cast<Access>(static_cast<uint32_t>(region.rights) &
                                            static_cast<uint32_t>(Access::kRemoteRead | Access::kRemoteWrite |
                                                                  Access::kRemoteAtomic));
    key->state = Key::State::kBinding;
    key->window = true;
    node.windows.push_back(key);
    send.key = key;
    draft.request.bind = {key->rkey, region.mr.lkey, region.mr.addr + key->begin, key->length, key->rights};
    return;
  }
  for (const KeyPtr& key : node.windows) {
    if (key->region == nullptr || key->region->pd != qp.config.pd || key->state != Key::State::kGood)
      continue;
    send.key = key;
    draft.request.rkey = key->rkey;
    draft.request.bind.window = key->rkey;
    return;
  }
  send.opcode = SendOpcode::kDelay;
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
  if (qp.peer == nullptr) {
    std::vector<Qp*> others;
    for (auto& node : nodes_)
      for (auto& other : node->qps)
        if (other->handle != nullptr && other->config.type == qp.config.type) others.push_back(other.get());
    send.to = others[draw_.below(others.size())];
    draft.request.dest = {send.to->lid, send.to->qpn, send.to->qkey, ServiceLevel(0)};
  }
  const bool moves =
      static_cast<uint32_t>(send.opcode) < static_cast<uint32_t>(SendOpcode::kLocalInvalidate) ||
      send.opcode == SendOpcode::kSendWithInvalidate;
  if (!moves) {
    draft_window(qp, draft);
    return true;
  }
  send.allow(WcStatus::kSuccess);
  if (qp.acknowledged() && qp.rnr_retry < 7 && send.takes_receive()) send.allow(WcStatus::kRnrRetryExceeded);
  const uint32_t longest =
      qp.connected() ? plan_.bytes_max : std::min(plan_.bytes_max, plan_.fabric.cell_payload_bytes);
  send.length = draw_.chance(12)  ? 0
                : draw_.chance(3) ? draw_.between(1, std::min(longest, 64U))
                                  : draw_.below(longest + 1);
  // Datagrams and unacknowledged messages are told apart by their bytes, or by their immediate data.
  const bool told_apart = qp.acknowledged() && (qp.connected() || !send.is_send());
  if (!told_apart && send.length < kWordBytes) send.opcode = SendOpcode::kSendWithImm;
  if (send.is_atomic()) send.length = kWordBytes;
  if (send.opcode == SendOpcode::kSendWithInvalidate) {
    const KeyPtr key = pick_key(*send.to->node, send.to->config.pd, Access::kNone | Access::kRemoteWrite);
    if (key == nullptr || !key->window || key->state != Key::State::kGood) {
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
  if (!lease(*qp.node, qp.config.pd, send.length, pieces, brings, send.pieces)) return false;
  if (!brings) {
    for (const Piece& piece : send.pieces) {
      const std::byte* from = piece.region->at(piece.offset);
      send.data.insert(send.data.end(), from, from + piece.length);
    }
  }
  if (!brings && send.length <= kInlineMax && draw_.chance(3)) send.flags |= adapter::kSendInline;
  draft.sges = segments(send.pieces, (send.flags & adapter::kSendInline) != 0);
  if (draw_.below(1'000'000) < plan_.wrong_ppm) draft_wrong(qp, draft);
  return true;
}

void Program::post_sends(Qp& qp) {
  const uint32_t count = draw_.chance(3) ? draw_.between(1, 8) : 1;
  for (uint32_t i = 0; i < count; ++i) {
    if (qp.sends.size() >= qp.config.send_wqes || room(*qp.send_cq) == 0) return;
    Draft draft;
    if (!draft_send(qp, draft)) {
      give_back(draft.send->pieces);
      continue;
    }
    Send& send = *draft.send;
    adapter::SendRequest& request = draft.request;
    request.wr_id = send.wr_id;
    request.opcode = send.opcode;
    request.flags = send.flags;
    if (send.executes_here) request.flags &= adapter::kSendFence | adapter::kSendSignaled;
    request.sges = draft.sges;
    if (send.has_imm()) request.imm = send.imm;
    if (send.is_atomic()) {
      request.compare = draw_.chance(2) ? 0 : draw_.below(uint64_t{1} << 32);
      request.operand = draw_.below(uint64_t{1} << 32);
    }
    const PostResult result = qp.node->adapter->post_send(*qp.handle, request);
    touched_ |= uint64_t{1} << qp.node->number;
    if (result != PostResult::kOk) {
      give_back(send.pieces);
      return model_.fail(
          fmt::format("wr {} ({}) was refused: {}", send.wr_id, name_of(send.opcode), to_string(result)));
    }
    model_.posted(qp, draft.send);
    if (send.word != nullptr) {
      send.name = send.word->open({0, send.place, send.begin, kOpen, send.opcode == SendOpcode::kCompareSwap,
                                   request.compare, request.operand, false, 0});
    }
    if (send.key != nullptr &&
        (send.opcode == SendOpcode::kSendWithInvalidate || send.opcode == SendOpcode::kLocalInvalidate ||
         send.opcode == SendOpcode::kUnbindWindow))
      model_.ends(send.key);
    if (tells_) note(*qp.node, "post " + describe(send));
  }
}

}  // namespace weft::sim::verbs
