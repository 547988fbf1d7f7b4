// Posting: a work request is checked against the table of operations, copied into its slot with its segments
// and inline data, and counted. Posting does not allocate, lock or enter the kernel (PUSH-WQ-09).
#include <cstring>

#include "adapter/adapter.h"
#include "adapter/adapter_parts.h"
#include "adapter/queues/qp_lifecycle.h"
#include "messages/ipv6_frame.h"
#include "messages/multicast.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

uint64_t total_bytes(std::span<const Sge> sges) noexcept {
  uint64_t bytes = 0;
  for (const Sge& sge : sges) bytes += sge.length;
  return bytes;
}

const SendOpcodeRule* find_operation(const ServiceRow& row, SendOpcode opcode) noexcept {
  for (const SendOpcodeRule& rule : row.operations) {
    if (rule.opcode == opcode) return &rule;
  }
  return nullptr;
}

/// A datagram needs a LID, or a handle that is valid for this QP. Contexts of reliable datagrams have LIDs
/// only.
bool can_reach(const QueuePair& qp, const SendRequest& request) noexcept {
  if (request.ah == nullptr) return request.dest.lid != kLidNone;
  const bool global = request.ah->attr.is_global && !qp.row->has_grh_space;
  return request.ah->pd == qp.config.pd && request.ah->attr.port == qp.port && !global;
}

/// A write of this service may invalidate the key that it names.
bool ends_target(const ServiceRow& row, const SendOpcodeRule& rule) noexcept {
  const bool writes = rule.work == SendWork::kMessage && rule.needs_remote_addr;
  return writes && row.acknowledged && row.waits_for_keys;
}

void take_address(const QueuePair& qp, const SendRequest& request, SendWqe& wqe) noexcept {
  wqe.dest = request.dest;
  wqe.is_global = wqe.to_group = false;
  if ((request.dest.qkey & kQkeyOfQp) != 0) wqe.dest.qkey = qp.attr.qkey;
  if (request.ah == nullptr) return;
  wqe.dest.lid = request.ah->attr.dlid;
  wqe.dest.sl = request.ah->attr.sl;
  wqe.is_global = request.ah->attr.is_global;
  wqe.to_group = is_multicast(wqe.dest.lid) && wqe.is_global;
  if (wqe.is_global) wqe.route = request.ah->attr.route;
}

PostResult check_post(const Engine& engine, const QueuePair& qp, const SendRequest& request,
                      const SendOpcodeRule*& rule, uint64_t& length) noexcept {
  if (qp.owner != &engine || !qp.abilities().post_send) return PostResult::kBadState;
  rule = find_operation(*qp.row, request.opcode);
  if (rule == nullptr) return PostResult::kBadOpcode;
  if ((request.flags & ~kSendFlagsAll) != 0) return PostResult::kBadOpcode;
  if (qp.sq.full()) return PostResult::kWouldBlock;
  if (!rule->moves_data()) return request.sges.empty() ? PostResult::kOk : PostResult::kBadSges;
  if (request.sges.empty() && !qp.config.empty_lists) return PostResult::kBadSges;
  if (request.sges.size() > qp.sq.sges_max()) return PostResult::kTooManySges;
  length = total_bytes(request.sges);
  if (rule->is_atomic() && length != kFetchOperandBytes) return PostResult::kBadAtomic;
  const bool is_inline = (request.flags & kSendInline) != 0;
  if (is_inline && rule->is_read()) return PostResult::kBadOpcode;
  if ((request.flags & kSendInvalidateTarget) != 0 && !ends_target(*qp.row, *rule))
    return PostResult::kBadOpcode;
  if (is_inline && length > qp.sq.inline_max()) return PostResult::kInlineTooLong;
  if (length > engine.config.limits.message_bytes_max) return PostResult::kTooLong;
  if (!qp.connected()) {
    if (!can_reach(qp, request)) return PostResult::kNoDestination;
    const AdapterPort& port = *engine.ports[qp.port - 1U];
    const uint32_t segment = port.known() ? port.info().cell_payload_bytes : kCellPayloadBytesMax;
    const uint32_t header = qp.config.raw_ipv6 ? kIpv6HeaderBytes : 0;
    if (length > segment + header) return PostResult::kTooLong;
    if (length < header) return PostResult::kBadSges;
  }
  if (qp.row->names_srq && (request.srq == 0 || request.srq > kSrqNumberMask))
    return PostResult::kNoDestination;
  if (length == 0 && qp.config.empty_lists)
    return PostResult::kOk;  // programs of libibverbs set no key in this case
  if (rule->needs_remote_key && request.rkey == Rkey()) return PostResult::kNoRemoteKey;
  if (rule->needs_remote_addr && request.remote_addr == kNoRemoteAddr) return PostResult::kNoRemoteKey;
  return PostResult::kOk;
}

}  // namespace

PostResult ChannelAdapter::post(QueuePair& qp, const SendRequest& request) noexcept {
  const SendOpcodeRule* rule = nullptr;
  uint64_t length = 0;
  const PostResult result = check_post(parts_->engine, qp, request, rule, length);
  if (result != PostResult::kOk) return result;
  const uint64_t position = qp.sq.posted++;
  SendWqe& wqe = qp.sq.at(position);
  static_cast<SendWqeHead&>(wqe) = {};
  wqe.wr_id = request.wr_id;
  wqe.rule = rule;
  wqe.flags = request.flags;
  wqe.length = static_cast<uint32_t>(length);
  wqe.imm = request.imm;
  wqe.remote_addr = request.remote_addr;
  wqe.rkey = request.rkey;
  if (qp.row->names_srq) wqe.srq = request.srq;
  wqe.sge_count = static_cast<uint8_t>(request.sges.size());
  if (rule->is_atomic()) wqe.atomic = {request.compare, request.operand};
  if (rule->moves_data() && !qp.connected()) take_address(qp, request, wqe);
  if (rule->work == SendWork::kDelay) wqe.delay = request.delay;
  if (rule->work == SendWork::kBind || rule->work == SendWork::kUnbind) wqe.bind = request.bind;
  if (rule->work == SendWork::kRegister) wqe.registration = request.registration;
  if (rule->moves_data() && (request.flags & kSendInline) != 0) {
    std::byte* to = qp.sq.inline_data(position);
    for (const Sge& sge : request.sges) {
      if (sge.length == 0) continue;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a work request names memory by number, as in verbs
      std::memcpy(to, reinterpret_cast<const std::byte*>(sge.addr), sge.length);
      to += sge.length;
    }
  } else {
    std::copy(request.sges.begin(), request.sges.end(), qp.sq.sges(position));
  }
  return PostResult::kOk;
}

void ChannelAdapter::ring_send(QueuePair& qp) noexcept {
  if (qp.owner != &parts_->engine || qp.sq.rung == qp.sq.posted) return;
  if (qp.abilities().flush_send) return flush_send(parts_->engine, qp);
  qp.sq.rung = qp.sq.posted;
  if (parts_->engine.qps.many()) qp.prefetch_to_send();
  parts_->engine.schedule.want_send(qp);
}

void ChannelAdapter::take_back_posts(QueuePair& qp) noexcept {
  if (qp.owner == &parts_->engine) qp.sq.posted = qp.sq.rung;
}

PostResult ChannelAdapter::post(QueuePair& qp, const RecvRequest& request) noexcept {
  if (qp.owner != &parts_->engine || !qp.abilities().post_recv) return PostResult::kBadState;
  if (qp.config.srq != nullptr || !qp.row->has_recv_queue) return PostResult::kBadOpcode;
  if (request.sges.size() > qp.own_rq.sges_max()) return PostResult::kTooManySges;
  if (qp.own_rq.full()) return PostResult::kWouldBlock;
  qp.own_rq.post(request);
  return PostResult::kOk;
}

bool ChannelAdapter::ring_recv(QueuePair& qp) noexcept {
  if (qp.owner != &parts_->engine || !qp.own_rq.announce()) return false;
  if (qp.abilities().flush_recv) {
    flush_recv(parts_->engine, qp);
    return true;
  }
  const bool goes_on = qp.rx.blocked;
  if (goes_on) qp.service->receive_posted(qp);
  return goes_on;
}

PostResult ChannelAdapter::post_send(QueuePair& qp, const SendRequest& request) noexcept {
  const PostResult result = post(qp, request);
  if (result == PostResult::kOk) ring_send(qp);
  return result;
}

PostResult ChannelAdapter::post_send(QueuePair& qp, std::span<const SendRequest> list,
                                     size_t& accepted) noexcept {
  PostResult result = PostResult::kOk;
  for (accepted = 0; accepted < list.size(); ++accepted) {
    result = post(qp, list[accepted]);
    if (result != PostResult::kOk) break;
  }
  if (accepted != 0) ring_send(qp);
  return result;
}

PostResult ChannelAdapter::post_recv(QueuePair& qp, const RecvRequest& request) noexcept {
  const PostResult result = post(qp, request);
  if (result == PostResult::kOk) static_cast<void>(ring_recv(qp));
  return result;
}

}  // namespace weft::adapter
