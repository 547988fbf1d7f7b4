// The part of the model that handles results; sim/verbs/model_acts.cc handles the program's calls.
#include "sim/verbs/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/plan/world_plan.h"
#include "sim/verbs/migration.h"

namespace weft::sim::verbs {

using adapter::AsyncEventKind;
using adapter::WcOpcode;
using adapter::WcStatus;
using adapter::WorkCompletion;

Tally& Tally::operator+=(const Tally& other) {
  for (const auto& [what, times] : other.count) count[what] += times;
  return *this;
}

void Model::fail(const std::string& what) {
  if (violations_.size() < 20) violations_.push_back(what);
}

void Model::completed(Node& node, Cq& cq, const WorkCompletion& wc) {
  tick();
  const bool solicited = wc.status != WcStatus::kSuccess || (wc.flags & adapter::kWcSolicited) != 0;
  if (cq.armed == adapter::CqNotify::kNext || (cq.armed == adapter::CqNotify::kSolicited && solicited))
    cq.must_tell = true;
  for (auto& qp : node.qps) {
    // Completions of an XRC target's receives may be polled after the target has been destroyed.
    if ((qp->handle == nullptr && !qp->is_target()) || qp->qpn != wc.qpn) continue;
    const bool of_receive = static_cast<uint8_t>(wc.opcode) >= static_cast<uint8_t>(WcOpcode::kRecv);
    tally_(fmt::format("{} {}", of_receive ? "receive" : "send", to_string(wc.status)));
    if (!qp->is_target() && (of_receive ? qp->recv_cq : qp->send_cq) != &cq)
      return fail("a completion in a queue of others");
    return of_receive ? receive_completed(*qp, cq, wc) : send_completed(*qp, wc);
  }
  fail(fmt::format("a completion of wr {} names a QP that is no more", wc.wr_id));
}

void Model::polled_dry(Cq& cq, bool told) {
  if (cq.armed == adapter::CqNotify::kOff) return;
  if (told != cq.must_tell) {
    fail(fmt::format("an armed completion queue of node {} {}", cq.node->number,
                     told ? "spoke without an entry that it was armed for" : "kept quiet about its entry"));
  }
  if (told) tally_(cq.armed == adapter::CqNotify::kNext ? "notified of any" : "notified of solicited");
  if (told) cq.armed = adapter::CqNotify::kOff;
  cq.must_tell = false;
}

// ---- sends

WcOpcode completion_of(adapter::SendOpcode opcode) noexcept {
  using adapter::SendOpcode;
  switch (opcode) {
    case SendOpcode::kRdmaWrite:
    case SendOpcode::kRdmaWriteWithImm:
      return WcOpcode::kRdmaWrite;
    case SendOpcode::kRdmaRead:
      return WcOpcode::kRdmaRead;
    case SendOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case SendOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
    case SendOpcode::kLocalInvalidate:
      return WcOpcode::kLocalInvalidate;
    case SendOpcode::kBindWindow:
    case SendOpcode::kUnbindWindow:
      return WcOpcode::kBindWindow;
    case SendOpcode::kDelay:
      return WcOpcode::kDelay;
    case SendOpcode::kRegister:
      return WcOpcode::kRegister;
    case SendOpcode::kSend:
    case SendOpcode::kSendWithImm:
    case SendOpcode::kSendWithInvalidate:
      break;
  }
  return WcOpcode::kSend;
}

/// DMA that fails ends an RC queue pair over a window, and with it its peer's. A response that lacks a part
/// is a bad one.
bool Model::of_failed_dma(const Qp& qp, WcStatus status) const noexcept {
  const bool fails = plan_.dma_faults.fail_ppm != 0 && qp.config.type == adapter::QpType::kRc;
  return fails && (status == WcStatus::kRetryExceeded || status == WcStatus::kBadResponse);
}

/// True if the send may end with this status. Receives of the peer may be posted, or lose their memory, after
/// the message that fills them.
bool Model::may_now(const Send& send, WcStatus status) const {
  if (send.may(status)) return true;
  if (of_failed_dma(*send.from, status)) return true;
  if (status == WcStatus::kRetryExceeded) return out_of_reach(send) || send.from->may_expire;
  if (!send.takes_receive() || send.to == nullptr) return false;
  return (status == WcStatus::kRemoteInvalidRequest && send.to->shortest_receive < send.length) ||
         (status == WcStatus::kRemoteOperation && send.to->unusable_receives);
}

void Model::send_completed(Qp& qp, const WorkCompletion& wc) {
  size_t place = 0;
  while (place < qp.sends.size() && qp.sends[place]->wr_id != wc.wr_id) ++place;
  if (place == qp.sends.size())
    return fail(fmt::format("wr {} completed on QP {}, where it is not under way", wc.wr_id, qp.id));
  // Unsignaled requests before the completed one have succeeded.
  for (; place > 0; --place) {
    const SendPtr skipped = qp.sends.front();
    qp.sends.pop_front();
    suspect_ = skipped;
    if (skipped->signaled || qp.failed || !skipped->may(WcStatus::kSuccess))
      return fail(fmt::format("{} was passed over by the completion of wr {}", describe(*skipped), wc.wr_id));
    send_succeeded(qp, skipped);
  }
  const SendPtr send = qp.sends.front();
  qp.sends.pop_front();
  suspect_ = send;
  tally_(fmt::format("{} {} {}", type_name(qp.config.type), name_of(send->opcode), to_string(wc.status)));
  const bool flushed = wc.status == WcStatus::kFlushed;
  // If a registration stops all operations at once, its own completion comes after those that have not
  // completed.
  const bool reason = send->opcode == adapter::SendOpcode::kRegister && wc.status == WcStatus::kMwBind &&
                      qp.config.registration == adapter::SendRegistration::kAnticipatory;
  if (qp.failed && !flushed && !reason)
    return fail(fmt::format("{} ended as {} behind one that failed", describe(*send), to_string(wc.status)));
  if ((!qp.failed || reason) && !may_now(*send, wc.status))
    return fail(fmt::format("{} ended as {}", describe(*send), to_string(wc.status)));
  if (qp.life == Life::kDrained)
    return fail(fmt::format("{} completed after its queue was drained", describe(*send)));
  if (wc.status != WcStatus::kSuccess) return send_failed(qp, send, wc.status);
  if (!send->signaled) return fail(fmt::format("{} was not to be told", describe(*send)));
  if (wc.opcode != completion_of(send->opcode))
    return fail(fmt::format("{} was another operation, says its completion", describe(*send)));
  const bool counts = send->opcode == adapter::SendOpcode::kRdmaRead || send->is_atomic();
  if (counts && wc.byte_count != send->length)
    return fail(fmt::format("{} brought {} bytes, says its completion", describe(*send), wc.byte_count));
  send_succeeded(qp, send);
}

void Model::send_succeeded(Qp& qp, const SendPtr& send) {
  send->done = send->succeeded = true;
  if (send->saw_switch_die && qp.acknowledged()) tally_("request that outlived a switch");
  if (qp.acknowledged() && cannot_pass(*send))
    fail(fmt::format("{} succeeded over a LID that is no more", describe(*send)));
  switch (send->opcode) {
    case adapter::SendOpcode::kRdmaRead:
      read_succeeded(*send);
      break;
    case adapter::SendOpcode::kCompareSwap:
    case adapter::SendOpcode::kFetchAdd: {
      uint64_t found = 0;
      auto* to = reinterpret_cast<std::byte*>(&found);
      for (const Piece& piece : send->pieces) {
        std::memcpy(to, piece.region->at(piece.offset), piece.length);
        to += piece.length;
      }
      close_operation(send, true, &found);
      break;
    }
    case adapter::SendOpcode::kBindWindow:
      if (send->replaces != nullptr) ended(send->replaces);
      if (send->key->length == 0) ended(send->key);
      if (send->key->state == Key::State::kBinding) send->key->state = Key::State::kGood;
      break;
    case adapter::SendOpcode::kRegister:
      send->key->state = Key::State::kGood;
      send->key->region->registered = true;
      send->key->region->under_way = false;
      break;
    case adapter::SendOpcode::kUnbindWindow:
    case adapter::SendOpcode::kLocalInvalidate:
      ended(send->key);
      break;
    default:
      if (qp.acknowledged()) close_operation(send, true, nullptr);
      break;
  }
  release(send->pieces, send->opcode == adapter::SendOpcode::kRdmaRead || send->is_atomic());
}

void Model::read_succeeded(const Send& send) {
  if (send.patch == nullptr) return;
  std::vector<std::byte> brought;
  for (const Piece& piece : send.pieces) {
    const std::byte* from = piece.region->at(piece.offset);
    brought.insert(brought.end(), from, from + piece.length);
  }
  const std::string wrong = send.patch->close_read(send.place, send.begin, now_, send.patch_at, brought);
  if (!wrong.empty()) fail(fmt::format("{} brought what was never there: {}", describe(send), wrong));
}

void Model::send_failed(Qp& qp, const SendPtr& send, WcStatus status) {
  send->done = true;
  const bool first = !qp.failed;
  qp.failed = true;
  if (send->saw_switch_die && status == WcStatus::kRetryExceeded) tally_("request that ended with a switch");
  if (send->executes_here) in_doubt(*send, status);
  if (send->opcode == adapter::SendOpcode::kRdmaRead && send->patch != nullptr)
    static_cast<void>(send->patch->close_read(send->place, send->begin, now_, 0, {}));
  // A write or atomic operation may still be under way; it is over when its target no longer receives.
  release(send->pieces, send->opcode == adapter::SendOpcode::kRdmaRead || send->is_atomic());
  qp.broken = true;
  if (qp.peer != nullptr) qp.peer->broken = true;
  if (status == WcStatus::kFlushed || qp.life == Life::kError) return;
  if (!qp.acknowledged())
    qp.life = Life::kSendError;
  else if (first)
    fail(fmt::format("{} failed, and no event said that its QP did", describe(*send)));
}

// ---- receives

void Model::receive_completed(Qp& qp, const Cq& cq, const WorkCompletion& wc) {
  const ReceivePtr receive = take_receive(qp, cq, wc);
  if (receive == nullptr)
    return fail(fmt::format("receive wr {} completed on QP {} out of turn, or twice", wc.wr_id, qp.id));
  if (wc.status == WcStatus::kSuccess)
    receive_succeeded(qp, receive, wc);
  else
    receive_failed(qp, receive, wc);
  // A message that was abandoned half way (UC), or whose invalidation was refused (RD), leaves its receive
  // for the next message.
  const bool given_up = std::any_of(qp.node->qps.begin(), qp.node->qps.end(), [&](const auto& other) {
    const bool same = other.get() == &qp || (qp.srq != nullptr && other->srq == qp.srq);
    return same && (other->config.type == adapter::QpType::kUc || other->fills_early);
  });
  const bool tail_known = receive->untouched && wc.status == WcStatus::kSuccess && !given_up;
  for (const Piece& piece : receive->pieces) {
    if (tail_known && !receive->unusable && !piece.region->as_expected(piece.offset, piece.length))
      fail(fmt::format("receive wr {} changed memory behind its message", wc.wr_id));
  }
  release(receive->pieces, true);
}

ReceivePtr Model::take_receive(Qp& qp, const Cq& cq, const WorkCompletion& wc) {
  for (Srq* srq : qp.shared_queues()) {
    const auto found = srq->receives.find(wc.wr_id);
    if (found == srq->receives.end() || (srq->cq != nullptr && srq->cq != &cq)) continue;
    ReceivePtr receive = found->second;
    srq->receives.erase(found);
    return receive;
  }
  if (qp.receives.empty() || qp.receives.front()->wr_id != wc.wr_id) return nullptr;
  ReceivePtr receive = qp.receives.front();
  qp.receives.pop_front();
  return receive;
}

void Model::receive_failed(Qp& qp, const ReceivePtr& receive, const WorkCompletion& wc) {
  const auto* coming = qp.peer != nullptr ? &qp.coming[qp.peer] : nullptr;
  switch (wc.status) {
    case WcStatus::kFlushed:
      if (qp.life != Life::kError && !(qp.is_target() && qp.was_in_error))
        fail(fmt::format("receive wr {} was flushed on a QP that lives", wc.wr_id));
      return;
    case WcStatus::kLocalLength:
      if (coming == nullptr || std::none_of(coming->begin(), coming->end(), [&](const SendPtr& send) {
            return send->length > receive->capacity && (send == coming->front() || qp.is_target());
          }))
        fail(fmt::format("receive wr {} was too short for nothing", wc.wr_id));
      return;
    case WcStatus::kLocalProtection:
      if (!receive->unusable)
        fail(fmt::format("receive wr {} could not be filled, though it was good", wc.wr_id));
      return;
    default:
      fail(fmt::format("receive wr {} ended as {}", wc.wr_id, to_string(wc.status)));
  }
}

/// True if the QP's port had this LID at some time after `since`.
bool Model::had_lid(const Qp& qp, Lid lid, Instant since) const {
  return qp.lid == lid || links_.had(qp.node->links[qp.port - 1U], lid, since);
}

Qp* Model::sender_of(Qp& qp, const WorkCompletion& wc) const {
  if (qp.peer != nullptr) return qp.peer;
  for (auto& [sender, messages] : qp.coming) {
    if (sender->qpn == wc.src_qpn && had_lid(*sender, wc.src_lid, Instant{})) return const_cast<Qp*>(sender);
  }
  return nullptr;
}

/// How the completion differs from the message; empty when it does not.
std::string Model::differs(const Qp& qp, const Send& send, const Receive& receive,
                           const WorkCompletion& wc) const {
  const WcOpcode opcode = send.is_write() ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRecv;
  const bool invalidates = send.opcode == adapter::SendOpcode::kSendWithInvalidate;
  if (wc.opcode != opcode) return "operation";
  if (wc.byte_count != send.length) return "length";
  if (((wc.flags & adapter::kWcWithImm) != 0) != send.has_imm()) return "immediate data";
  if (send.has_imm() && wc.imm != send.imm) return "immediate data";
  if (((wc.flags & adapter::kWcSolicited) != 0) != ((send.flags & adapter::kSendSolicited) != 0))
    return "solicited";
  if (((wc.flags & adapter::kWcWithInvalidate) != 0) != invalidates) return "invalidation";
  if (invalidates && wc.invalidated != send.key->rkey) return "invalidated key";
  if (!qp.connected() && (wc.src_qpn != send.from->qpn || !had_lid(*send.from, wc.src_lid, send.posted_at)))
    return "sender";
  if (send.is_write()) return wc.written_va == send.remote_addr ? "" : "address written";
  if (send.length > receive.capacity) return "length";
  uint64_t at = 0;
  for (const Piece& piece : receive.pieces) {
    const uint64_t bytes = std::min<uint64_t>(piece.length, send.length - at);
    if (bytes == 0) break;
    if (!send.data.empty() && std::memcmp(piece.region->at(piece.offset), send.data.data() + at, bytes) != 0)
      return "bytes";
    at += bytes;
  }
  return {};
}

/// A message has arrived; earlier messages of the same sender will not arrive any more.
void Model::arrived(const Qp& qp, std::deque<SendPtr>& messages, size_t index) {
  const bool ud = qp.config.type == adapter::QpType::kUd;
  const auto place = messages.begin() + static_cast<ptrdiff_t>(index);
  if (qp.is_target()) {
    messages.erase(place);
  } else if (!(ud && plan_.reorders_datagrams())) {
    if (!qp.acknowledged()) lost_[qp.node].insert(lost_[qp.node].end(), messages.begin(), place);
    messages.erase(messages.begin(), place);
    if (!(ud && plan_.doubles())) messages.pop_front();
  } else if (!plan_.doubles()) {
    messages.erase(place);
  }
}

/// Finds and removes the message that filled this receive. With acknowledgements only the next one is
/// possible.
SendPtr Model::take_message(Qp& qp, const Receive& receive, const WorkCompletion& wc) {
  Qp* sender = sender_of(qp, wc);
  if (sender == nullptr) {
    fail(fmt::format("QP {} received from an unknown sender", qp.id));
    return nullptr;
  }
  std::deque<SendPtr>& messages = qp.coming[sender];
  std::string why = "nothing was sent";
  for (size_t i = 0; i < messages.size(); ++i) {
    SendPtr send = messages[i];
    // For an XRC target each queue has its own order, because completion queues are examined one by one.
    if (send->srq != nullptr && send->srq != receive.srq) continue;
    const std::string wrong = differs(qp, *send, receive, wc);
    // A reliable message may be missing only if its sender gave it up.
    const bool given_up =
        (send->done && !send->succeeded) || send->may_be_gone || send->from->life == Life::kError;
    if (wrong.empty()) {
      // The message may also be a later one with the same content.
      for (size_t j = i + 1; given_up && j < messages.size(); ++j) {
        if (differs(qp, *messages[j], receive, wc).empty()) messages[j]->may_be_gone = true;
      }
      arrived(qp, messages, i);
      return send;
    }
    suspect_ = send;
    why = fmt::format("{} of {}", wrong, describe(*send));
    if (qp.acknowledged() && ((qp.connected() && !qp.is_target()) || !given_up)) break;
  }
  fail(fmt::format("QP {} received something else than was sent: {} (wr {}, {} bytes)", qp.id, why, wc.wr_id,
                   wc.byte_count));
  return nullptr;
}

void Model::receive_succeeded(Qp& qp, const ReceivePtr& receive, const WorkCompletion& wc) {
  const SendPtr send = take_message(qp, *receive, wc);
  if (send == nullptr) return;
  suspect_ = send;
  tally_(fmt::format("{} {} delivered", type_name(qp.config.type), name_of(send->opcode)));
  send->delivered = true;
  if (send->refused) fail(fmt::format("{} was delivered", describe(*send)));
  if (cannot_pass(*send)) fail(fmt::format("{} was delivered over a LID that is no more", describe(*send)));
  if (send->opcode == adapter::SendOpcode::kSendWithInvalidate) ended(send->key);
  if (qp.config.type == adapter::QpType::kUc) close_up_to(qp, send->from, send->place.index);
  if (!send->is_send()) return;
  uint64_t at = 0;
  for (const Piece& piece : receive->pieces) {
    const uint64_t bytes = std::min<uint64_t>(piece.length, send->length - at);
    piece.region->accept(piece.offset, bytes);
    at += bytes;
  }
}

// ---- events

/// The limit event of a shared queue: fewer receives are left than its limit.
void Model::ran_low(const Node& node, Srq& srq) {
  size_t under_way = 0;  // messages that may have taken a receive
  for (const auto& qp : node.qps) {
    if (!qp->takes_from(srq)) continue;
    for (const auto& [sender, messages] : qp->coming) under_way += messages.size();
    // A message abandoned half way may have taken a receive.
    if (qp->config.type == adapter::QpType::kUc) ++under_way;
  }
  if (srq.limit == 0) fail("a limit event of a shared receive queue without a limit");
  if (srq.receives.size() >= srq.limit + under_way && !plan_.doubles())
    fail(fmt::format("a limit event of a shared receive queue with {} receives, of which {} may be taken",
                     srq.receives.size(), under_way));
  srq.limit = 0;
}

namespace {

bool of_port(AsyncEventKind kind) noexcept {
  switch (kind) {
    case AsyncEventKind::kPkeyChange:
    case AsyncEventKind::kLidChange:
    case AsyncEventKind::kGidChange:
    case AsyncEventKind::kClientReregister:
    case AsyncEventKind::kPortUp:
    case AsyncEventKind::kPortDown:
    case AsyncEventKind::kPortExpired:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Model::explain_fatal(Qp& qp, const adapter::AsyncEvent& event, const std::string& text) {
  const bool expired = (qp.must_fail || qp.may_expire) && event.status == WcStatus::kRetryExceeded;
  const bool stuck = event.status == WcStatus::kRetryExceeded && qp.has_refused && qp.refused_at == time_;
  if (stuck && !explains_stuck(qp))
    return fail(text +
                ", the port of its other path was down, and this path was silent for less than half of the "
                "retries' time");
  const bool own = std::any_of(qp.sends.begin(), qp.sends.end(),
                               [&](const SendPtr& send) { return may_now(*send, event.status); });
  if (!own && !expired && !of_failed_dma(qp, event.status) && !qp.unusable_receives)
    fail(text + ", and neither its requests nor its receives explain it");
}

void Model::event(Node& node, const adapter::AsyncEvent& event) {
  tick();
  tally_(fmt::format("event {}", to_string(event.kind)));
  if (of_port(event.kind) && event.qpn == Qpn()) return port_event(node, event);
  if (event.kind == AsyncEventKind::kSrqLimit) {
    for (auto& srq : node.srqs) {
      if (srq->handle == event.srq) return ran_low(node, *srq);
    }
    return fail("a limit event of a shared receive queue that is no more");
  }
  if (event.kind == AsyncEventKind::kCqOverrun) return fail("a completion queue has run over");
  Qp* qp = nullptr;
  for (auto& one : node.qps) {
    if (one->handle != nullptr && one->qpn == event.qpn) qp = one.get();
  }
  if (qp == nullptr) return;  // reported before the QP was destroyed
  const std::string text = fmt::format("QP {} of node {}: event {} ({})", qp->id, node.number,
                                       to_string(event.kind), to_string(event.status));
  const auto needs = [&](WcStatus status) {
    if ((qp->seen_by_peers & bit_of(status)) == 0) fail(text + ", and no peer did anything of the kind");
  };
  switch (event.kind) {
    case AsyncEventKind::kSqDrained:
      if (qp->life == Life::kDraining)
        qp->life = Life::kDrained;
      else if (qp->life != Life::kError)
        fail(text + ", and the program had not asked for it");
      return;
    case AsyncEventKind::kLastWqeReached:
      if (qp->life != Life::kError) stopped(*qp, false);
      if (qp->expects_last_wqe == 0) return fail(text + " once too often");
      --qp->expects_last_wqe;
      return;
    case AsyncEventKind::kQpAccessError:
      needs(WcStatus::kRemoteAccess);
      break;
    case AsyncEventKind::kQpRequestError:
      if (qp->shortest_receive >= plan_.bytes_max) needs(WcStatus::kRemoteInvalidRequest);
      break;
    case AsyncEventKind::kQpFatal:
      explain_fatal(*qp, event, text);
      break;
    case AsyncEventKind::kPathMigrated:
    case AsyncEventKind::kPathMigError: {
      const bool moved = event.kind == AsyncEventKind::kPathMigrated;
      const std::string wrong = moved ? path_migrated(*qp, links_, plan_.reorders(), time_)
                                      : path_refused(*qp, links_, plan_.reorders(), time_);
      if (!wrong.empty()) fail(text + ", and " + wrong);
      return;
    }
    default:
      return fail(text + ", and there was no reason");
  }
  if (qp->life == Life::kError) return fail(text + " of a QP that was in error already");
  stopped(*qp, false);
}

}  // namespace weft::sim::verbs
