// Posting: converts chained work requests of libibverbs into arrays for the adapter, kAtATime per array, on
// the stack.
#include <endian.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "adapter/config.h"
#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"
#include "verbs/work_batch.h"

namespace weft::verbs {
namespace {

/// Requests per call of the adapter: one lock and one turn serve them all.
constexpr size_t kPostedAtATime = 32;

static_assert(sizeof(ibv_sge) == sizeof(adapter::Sge) &&
              offsetof(ibv_sge, addr) == offsetof(adapter::Sge, addr) &&
              offsetof(ibv_sge, length) == offsetof(adapter::Sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(adapter::Sge, lkey));
static_assert(static_cast<int>(adapter::SendOpcode::kFetchAdd) == IBV_WR_ATOMIC_FETCH_AND_ADD &&
              static_cast<int>(adapter::SendOpcode::kSendWithInvalidate) == IBV_WR_SEND_WITH_INV);
static_assert(uint32_t{adapter::kSendFence} == IBV_SEND_FENCE &&
              uint32_t{adapter::kSendSignaled} == IBV_SEND_SIGNALED &&
              uint32_t{adapter::kSendSolicited} == IBV_SEND_SOLICITED &&
              uint32_t{adapter::kSendInline} == IBV_SEND_INLINE);

/// Scatter/gather lists of one chunk of requests. A list is used in place. If it is not aligned as an Sge
/// must be (libiscsi has its segments in a packed struct), it is copied here.
class SegmentLists {
 public:
  /// False when `count` is negative or no room is left for a copy, which means that the list is longer than
  /// any queue allows.
  bool take(const ibv_sge* list, int count, std::span<const adapter::Sge>& out) noexcept {
    if (count < 0) return false;
    const auto number = static_cast<size_t>(count);
    if (reinterpret_cast<uintptr_t>(list) % alignof(adapter::Sge) == 0 || number == 0) [[likely]] {
      out = {reinterpret_cast<const adapter::Sge*>(list), number};
      return true;
    }
    if (number * sizeof(adapter::Sge) > kRoomBytes - used_) return false;
    std::byte* at = &room_[used_];
    std::memcpy(at, list, number * sizeof(adapter::Sge));
    used_ += number * sizeof(adapter::Sge);
    out = {reinterpret_cast<const adapter::Sge*>(at), number};
    return true;
  }
  void clear() noexcept { used_ = 0; }

 private:
  static constexpr size_t kRoomBytes =
      kPostedAtATime * adapter::AdapterLimits{}.sges_per_wqe * sizeof(adapter::Sge);

  size_t used_ = 0;
  alignas(adapter::Sge) std::byte room_[kRoomBytes];
};

/// Translates everything but the segments.
Reason translate(const ibv_send_wr& in, ibv_qp_type type, adapter::SendRequest& out) noexcept {
  out = {.wr_id = in.wr_id,
         .opcode = static_cast<adapter::SendOpcode>(in.opcode),
         .flags = in.send_flags,
         .imm = be32toh(in.imm_data)};
  if (type == IBV_QPT_UD) {
    if (in.wr.ud.ah == nullptr) return Reason::kNoDestination;
    out.ah = &ours<Ah>(in.wr.ud.ah).object->value();
    out.dest.qpn = Qpn(in.wr.ud.remote_qpn);
    out.dest.qkey = in.wr.ud.remote_qkey;
  }
  if (type == IBV_QPT_XRC_SEND) out.srq = in.qp_type.xrc.remote_srqn;
  switch (static_cast<int>(in.opcode)) {  // newer headers have operations that older headers do not name
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      out.remote_addr = in.wr.rdma.remote_addr;
      out.rkey = Rkey(in.wr.rdma.rkey);
      return Reason::kOk;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      out.compare = in.wr.atomic.compare_add;
      out.operand = in.wr.atomic.swap;
      out.remote_addr = in.wr.atomic.remote_addr;
      out.rkey = Rkey(in.wr.atomic.rkey);
      return Reason::kOk;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      out.operand = in.wr.atomic.compare_add;
      out.remote_addr = in.wr.atomic.remote_addr;
      out.rkey = Rkey(in.wr.atomic.rkey);
      return Reason::kOk;
    case IBV_WR_LOCAL_INV:
    case IBV_WR_SEND_WITH_INV:
      out.rkey = Rkey(in.invalidate_rkey);
      return Reason::kOk;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return Reason::kOk;
    case IBV_WR_BIND_MW:
      if (in.bind_mw.mw == nullptr) return Reason::kBindKeyUnknown;
      return bind_request(in.bind_mw.mw, in.bind_mw.rkey, in.bind_mw.bind_info, out.bind)
                 ? Reason::kOk
                 : Reason::kBindWrongType;
  }
  return Reason::kBadOpcode;
}

/// Posts the chain in chunks. `post(chunk, posted)` posts one chunk; `fill(wr, request)` translates
/// everything but the segments.
template <class Wr, class Request, size_t kAtATime, class Fill, class Post>
Reason post_chunks(Wr* list, Wr** bad, Fill&& fill, Post&& post) noexcept {
  std::array<Request, kAtATime> chunk;
  SegmentLists segments;
  while (list != nullptr) {
    segments.clear();
    Wr* first = list;
    size_t count = 0;
    Reason why = Reason::kOk;
    for (; list != nullptr && count < kAtATime; list = list->next, ++count) {
      why = fill(*list, chunk[count]);
      if (why != Reason::kOk) break;
      if (!segments.take(list->sg_list, list->num_sge, chunk[count].sges)) {
        why = list->num_sge < 0 ? Reason::kBadSges : Reason::kTooManySges;
        break;
      }
    }
    size_t posted = 0;
    if (count != 0) {
      const Reason refused = post(std::span<const Request>(chunk.data(), count), posted);
      if (refused != Reason::kOk) why = refused;
    }
    if (why == Reason::kOk) continue;
    for (size_t i = 0; i < posted && first != nullptr; ++i) first = first->next;
    if (bad != nullptr) *bad = first;
    return why;
  }
  return Reason::kOk;
}

/// A list of one request is the usual case, and takes no room for more.
template <class Wr, class Request, class Fill, class Post>
Reason post_chain(Wr* list, Wr** bad, Fill&& fill, Post&& post) noexcept {
  if (list != nullptr && list->next == nullptr) return post_chunks<Wr, Request, 1>(list, bad, fill, post);
  return post_chunks<Wr, Request, kPostedAtATime>(list, bad, fill, post);
}

Reason fill_recv(const ibv_recv_wr& in, adapter::RecvRequest& out) noexcept {
  out = {.wr_id = in.wr_id};
  return Reason::kOk;
}

template <class Queue>
Reason post_receives(Queue& queue, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  return post_chain<ibv_recv_wr, adapter::RecvRequest>(
      list, bad, fill_recv, [&](std::span<const adapter::RecvRequest> chunk, size_t& posted) {
        return queue.post_recv(chunk, posted);
      });
}

[[gnu::cold]] void explain_send(const Qp& pair, Reason why, ibv_send_wr** bad) noexcept {
  const PostFacts facts = bad != nullptr ? facts_of(**bad) : PostFacts{};
  explain_post("ibv_post_send", pair, why, &facts);
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* list, ibv_send_wr** bad) noexcept {
  Qp& pair = ours(qp);
  const ibv_qp_type type = qp->qp_type;
  const bool entered =
      pair.batch != nullptr && pair.batch->lock.enter("ibv_post_send", {"QP", qp->qp_num, qp->context});
  const Reason why = post_chain<ibv_send_wr, adapter::SendRequest>(
      list, bad, [&](const ibv_send_wr& in, adapter::SendRequest& out) { return translate(in, type, out); },
      [&](std::span<const adapter::SendRequest> chunk, size_t& posted) {
        return pair.object->post_send(chunk, posted);  // refused in a child, with or without the lock
      });
  if (entered) pair.batch->lock.leave();
  if (why == Reason::kOk) [[likely]]
    return 0;
  explain_send(pair, why, bad);
  return fail(why);
}

int post_recv(ibv_qp* qp, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  const Qp& pair = ours(qp);
  const Reason why = post_receives(*pair.object, list, bad);
  if (why == Reason::kOk) [[likely]]
    return 0;
  explain_post("ibv_post_recv", pair, why, nullptr);
  return fail(why);
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* list, ibv_recv_wr** bad) noexcept {
  return fail(post_receives(*ours<Srq>(srq).object, list, bad), "ibv_post_srq_recv");
}

}  // namespace weft::verbs
