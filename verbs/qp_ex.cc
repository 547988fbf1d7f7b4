#include <endian.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "verbs/c_call.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"
#include "verbs/work_batch.h"

namespace weft::verbs {
namespace {

using adapter::SendOpcode;

WorkBatch& batch_of(ibv_qp_ex* qp) noexcept {
  return *ours<Qp>(qp).batch;
}

/// Appends a request to the batch; null when an earlier call of the batch has failed. wr_flags has no
/// IBV_SEND_INLINE (man ibv_wr_post): the setter decides whether the data is inline.
adapter::SendRequest* add(ibv_qp_ex* qp, SendOpcode opcode) noexcept {
  WorkBatch& batch = batch_of(qp);
  if (batch.fault != Reason::kOk) return nullptr;
  const size_t before = batch.requests.size();
  no_throw(0, [&] {
    batch.requests.push_back({.request = {.wr_id = qp->wr_id,
                                          .opcode = opcode,
                                          .flags = qp->wr_flags & ~uint32_t{adapter::kSendInline}},
                              .first_sge = batch.sges.size(),
                              .first_byte = batch.inline_bytes.size()});
    return 0;
  });
  if (batch.requests.size() == before) {
    batch.fault = Reason::kNoMemory;
    return nullptr;
  }
  return &batch.requests.back().request;
}

/// The place that a request names at the peer.
struct RemotePlace {
  uint32_t rkey = 0;
  uint64_t addr = adapter::kNoRemoteAddr;
};
struct AtomicOperands {
  uint64_t compare = 0;
  uint64_t operand = 0;  // the new value, or what is added
};

/// @param imm  in network byte order
void add_remote(ibv_qp_ex* qp, SendOpcode opcode, RemotePlace to, uint32_t imm = 0) noexcept {
  adapter::SendRequest* out = add(qp, opcode);
  if (out == nullptr) return;
  out->rkey = Rkey(to.rkey);
  out->remote_addr = to.addr;
  out->imm = be32toh(imm);
}

void add_atomic(ibv_qp_ex* qp, SendOpcode opcode, RemotePlace to, AtomicOperands with) noexcept {
  adapter::SendRequest* out = add(qp, opcode);
  if (out == nullptr) return;
  out->rkey = Rkey(to.rkey);
  out->remote_addr = to.addr;
  out->compare = with.compare;
  out->operand = with.operand;
}

void refuse(ibv_qp_ex* qp, Reason why) noexcept {
  WorkBatch& batch = batch_of(qp);
  if (batch.fault == Reason::kOk) batch.fault = why;
}

/// The request that the setters apply to: the last one added. Null when the batch has failed.
BuiltRequest* last(ibv_qp_ex* qp) noexcept {
  WorkBatch& batch = batch_of(qp);
  if (batch.fault == Reason::kOk && batch.requests.empty()) batch.fault = Reason::kWrongMoment;
  return batch.fault == Reason::kOk ? &batch.requests.back() : nullptr;
}

// ---- operations --------------------

void wr_atomic_cmp_swp(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t compare,
                       uint64_t swap) noexcept {
  add_atomic(qp, SendOpcode::kCompareSwap, {rkey, addr}, {compare, swap});
}
void wr_atomic_fetch_add(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, uint64_t operand) noexcept {
  add_atomic(qp, SendOpcode::kFetchAdd, {rkey, addr}, {0, operand});
}
void wr_bind_mw(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) noexcept {
  adapter::SendRequest* out = add(qp, SendOpcode::kBindWindow);
  if (out != nullptr && !bind_request(mw, rkey, *info, out->bind)) refuse(qp, Reason::kBindWrongType);
}
void wr_local_inv(ibv_qp_ex* qp, uint32_t rkey) noexcept {
  add_remote(qp, SendOpcode::kLocalInvalidate, {rkey});
}
void wr_rdma_read(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) noexcept {
  add_remote(qp, SendOpcode::kRdmaRead, {rkey, addr});
}
void wr_rdma_write(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr) noexcept {
  add_remote(qp, SendOpcode::kRdmaWrite, {rkey, addr});
}
void wr_rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t addr, __be32 imm) noexcept {
  add_remote(qp, SendOpcode::kRdmaWriteWithImm, {rkey, addr}, imm);
}
void wr_send(ibv_qp_ex* qp) noexcept {
  add_remote(qp, SendOpcode::kSend, {});
}
void wr_send_imm(ibv_qp_ex* qp, __be32 imm) noexcept {
  add_remote(qp, SendOpcode::kSendWithImm, {}, imm);
}
void wr_send_inv(ibv_qp_ex* qp, uint32_t rkey) noexcept {
  add_remote(qp, SendOpcode::kSendWithInvalidate, {rkey});
}
void wr_send_tso(ibv_qp_ex* qp, void* /*header*/, uint16_t /*bytes*/, uint16_t /*mss*/) noexcept {
  refuse(qp, Reason::kNoService);
}
void wr_atomic_write(ibv_qp_ex* qp, uint32_t /*rkey*/, uint64_t /*addr*/, const void* /*value*/) noexcept {
  refuse(qp, Reason::kNoService);
}

// ---- setters --------------------

void wr_set_ud_addr(ibv_qp_ex* qp, ibv_ah* ah, uint32_t remote_qpn, uint32_t remote_qkey) noexcept {
  BuiltRequest* built = last(qp);
  if (built == nullptr) return;
  built->request.ah = &ours<Ah>(ah).object->value();
  built->request.dest.qpn = Qpn(remote_qpn);
  built->request.dest.qkey = remote_qkey;
}

void wr_set_xrc_srqn(ibv_qp_ex* qp, uint32_t number) noexcept {
  BuiltRequest* built = last(qp);
  if (built != nullptr) built->request.srq = number;
}

void wr_set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) noexcept {
  BuiltRequest* built = last(qp);
  if (built == nullptr) return;
  const int fault = no_throw(ENOMEM, [&] {
    for (const ibv_sge& sge : std::span(list, count))
      batch_of(qp).sges.push_back({.addr = sge.addr, .length = sge.length, .lkey = Lkey(sge.lkey)});
    return 0;
  });
  if (fault != 0) return refuse(qp, Reason::kNoMemory);
  built->sges = count;
}

void wr_set_sge(ibv_qp_ex* qp, uint32_t lkey, uint64_t addr, uint32_t length) noexcept {
  const ibv_sge sge{.addr = addr, .length = length, .lkey = lkey};
  wr_set_sge_list(qp, 1, &sge);
}

/// Copies the bytes: the caller may reuse them once this returns.
void wr_set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) noexcept {
  BuiltRequest* built = last(qp);
  if (built == nullptr) return;
  const int fault = no_throw(ENOMEM, [&] {
    for (const ibv_data_buf& buffer : std::span(list, count)) {
      const auto* bytes = static_cast<const std::byte*>(buffer.addr);
      batch_of(qp).inline_bytes.insert(batch_of(qp).inline_bytes.end(), bytes, bytes + buffer.length);
      built->bytes += buffer.length;
    }
    return 0;
  });
  if (fault != 0) return refuse(qp, Reason::kNoMemory);
  built->request.flags |= adapter::kSendInline;
}

void wr_set_inline_data(ibv_qp_ex* qp, void* addr, size_t length) noexcept {
  const ibv_data_buf buffer{.addr = addr, .length = length};
  wr_set_inline_data_list(qp, 1, &buffer);
}

// ---- batches --------------------

/// Begins the critical section of the QP (man ibv_wr_post, CONCURRENCY): another thread waits here, or in
/// ibv_post_send(), until the batch ends. In a child after fork() the requests of the parent's batch may be
/// half written: none is added, and wr_complete() refuses the child's batch.
void wr_start(ibv_qp_ex* qp) noexcept {
  WorkBatch& batch = batch_of(qp);
  if (!batch.lock.enter("ibv_wr_start", {"QP", qp->qp_base.qp_num, qp->qp_base.context}))
    batch.fault = Reason::kForked;
}

void end_batch(WorkBatch& batch) noexcept {
  const bool entered = batch.fault != Reason::kForked;
  batch.clear();
  if (entered) batch.lock.leave();
}

void wr_abort(ibv_qp_ex* qp) noexcept {
  end_batch(batch_of(qp));
}

/// Posts all requests of the batch or none.
Reason post(Qp& pair, WorkBatch& batch) {
  if (batch.fault != Reason::kOk) return batch.fault;
  batch.inlined.resize(batch.requests.size());
  batch.posted.reserve(batch.requests.size());
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    const BuiltRequest& built = batch.requests[i];
    adapter::SendRequest request = built.request;
    if ((request.flags & adapter::kSendInline) != 0) {
      batch.inlined[i] = {.addr = reinterpret_cast<uint64_t>(batch.inline_bytes.data() + built.first_byte),
                          .length = static_cast<uint32_t>(built.bytes),
                          .lkey = {}};
      request.sges = std::span(&batch.inlined[i], 1);
    } else {
      request.sges = std::span(batch.sges).subspan(built.first_sge, built.sges);
    }
    batch.posted.push_back(request);
  }
  return pair.object->post_batch(batch.posted);
}

/// Explains the first request that is larger than the QP was made for, else the first request.
[[gnu::cold]] void explain_batch(const Qp& pair, Reason why) noexcept {
  const WorkBatch& batch = *pair.batch;
  const auto too_large = [&pair](const BuiltRequest& built) {
    return built.sges > pair.cap.max_send_sge || built.bytes > pair.cap.max_inline_data;
  };
  PostFacts facts;
  if (why == Reason::kForked) return explain_post("ibv_wr_complete", pair, why, &facts);
  auto at = std::find_if(batch.requests.begin(), batch.requests.end(), too_large);
  if (at == batch.requests.end()) at = batch.requests.begin();
  if (at != batch.requests.end()) {
    facts = {.opcode = at->request.opcode,
             .segments = at->sges,
             .bytes = at->bytes,
             .is_inline = (at->request.flags & adapter::kSendInline) != 0,
             .rkey = at->request.rkey.value()};
    if (facts.is_inline) facts.segments = 1;
  }
  explain_post("ibv_wr_complete", pair, why, &facts);
}

int wr_complete(ibv_qp_ex* qp) noexcept {
  Qp& pair = ours<Qp>(qp);
  const Reason why = no_throw(Reason::kNoMemory, [&] { return post(pair, *pair.batch); });
  if (why != Reason::kOk) [[unlikely]]
    explain_batch(pair, why);
  end_batch(*pair.batch);
  return fail(why);
}

}  // namespace

uint64_t possible_operations(ibv_qp_type type) noexcept {
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  // UC has no SEND with Invalidate (InfiniBand).
  constexpr uint64_t kWrites = kSends | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                               IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
  constexpr uint64_t kAll = kWrites | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  if (type == IBV_QPT_UD) return kSends;
  return type == IBV_QPT_UC ? kWrites : kAll;
}

void set_work_calls(ibv_qp_ex& qp) noexcept {
  qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
  qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
  qp.wr_bind_mw = wr_bind_mw;
  qp.wr_local_inv = wr_local_inv;
  qp.wr_rdma_read = wr_rdma_read;
  qp.wr_rdma_write = wr_rdma_write;
  qp.wr_rdma_write_imm = wr_rdma_write_imm;
  qp.wr_send = wr_send;
  qp.wr_send_imm = wr_send_imm;
  qp.wr_send_inv = wr_send_inv;
  qp.wr_send_tso = wr_send_tso;
  qp.wr_set_ud_addr = wr_set_ud_addr;
  qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
  qp.wr_set_inline_data = wr_set_inline_data;
  qp.wr_set_inline_data_list = wr_set_inline_data_list;
  qp.wr_set_sge = wr_set_sge;
  qp.wr_set_sge_list = wr_set_sge_list;
  qp.wr_start = wr_start;
  qp.wr_complete = wr_complete;
  qp.wr_abort = wr_abort;
  qp.wr_atomic_write = wr_atomic_write;
}

}  // namespace weft::verbs
