// Extended completion queues: the program reads each completion field by field.
#include <infiniband/verbs.h>

#include <ctime>
#include <memory>
#include <span>
#include <utility>

#include "verbs/c_call.h"
#include "verbs/completion.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/objects.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kStamps =
    uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
constexpr uint64_t kFields = uint64_t{IBV_WC_STANDARD_FLAGS} | kStamps;
constexpr uint32_t kKnownCqMask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
constexpr uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

const adapter::WorkCompletion& entry(ibv_cq_ex* cq) noexcept {
  return ours<Cq>(cq).shown;
}

uint64_t nanoseconds(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

/// Fills the program's struct from the entry just taken. Entries are taken one at a time, so that those still
/// queued can be removed with their QP when it is destroyed.
int show(ibv_cq_ex* cq, int got) noexcept {
  if (got <= 0) return got == 0 ? ENOENT : EIO;
  Cq& queue = ours<Cq>(cq);
  if (queue.stamps) {
    queue.taken_ns = nanoseconds(CLOCK_MONOTONIC);
    queue.taken_of_day_ns = nanoseconds(CLOCK_REALTIME);
  }
  cq->wr_id = queue.shown.wr_id;
  cq->status = static_cast<ibv_wc_status>(queue.shown.status);
  return 0;
}

/// The shown entry belongs to the caller until end_poll(). Another thread waits here or in ibv_poll_cq().
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) noexcept {
  if (attr != nullptr && attr->comp_mask != 0) return EINVAL;
  Cq& queue = ours<Cq>(cq);
  if (queue.lock != nullptr && !queue.lock->enter("ibv_start_poll", {"CQ", cq->handle, cq->context}))
    return EIO;
  const int got =
      poll_and_yield([&](Instant& at) { return queue.object->poll(std::span(&queue.shown, 1), at); });
  const int answer = show(cq, got);
  if (answer != 0 && queue.lock != nullptr) queue.lock->leave();
  if (queue.empty != nullptr) [[unlikely]]
    queue.empty->polled(*queue.object, got);
  return answer;
}
/// An entry whose completion event the program has not taken yet ends the batch. Otherwise a program that
/// arms the queue and then polls would later take an event without an entry, which ibv_rc_pingpong -e -t
/// treats as an error.
int next_poll(ibv_cq_ex* cq) noexcept {
  Cq& queue = ours<Cq>(cq);
  return show(cq, queue.object->poll_next(queue.shown));
}
void end_poll(ibv_cq_ex* cq) noexcept {
  const Cq& queue = ours<Cq>(cq);
  if (queue.lock != nullptr) queue.lock->leave();
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) noexcept {
  return static_cast<ibv_wc_opcode>(entry(cq).opcode);
}
uint32_t read_vendor_err(ibv_cq_ex* cq) noexcept {
  return vendor_code_of(entry(cq));
}
uint32_t read_byte_len(ibv_cq_ex* cq) noexcept {
  return entry(cq).byte_count;
}
__be32 read_imm_data(ibv_cq_ex* cq) noexcept {
  return imm_of(entry(cq));
}
uint32_t read_qp_num(ibv_cq_ex* cq) noexcept {
  return entry(cq).qpn.value();
}
uint32_t read_src_qp(ibv_cq_ex* cq) noexcept {
  return entry(cq).src_qpn.value();
}
unsigned int read_wc_flags(ibv_cq_ex* cq) noexcept {
  return flags_of(entry(cq));
}
uint32_t read_slid(ibv_cq_ex* cq) noexcept {
  return entry(cq).src_lid.value();
}
uint8_t read_sl(ibv_cq_ex* cq) noexcept {
  return entry(cq).sl.value();
}
uint8_t read_dlid_path_bits(ibv_cq_ex* /*cq*/) noexcept {
  return 0;
}
/// Time stamps tell when the program took the entry: one of each completion would cost the path of every
/// message a clock reading and eight bytes.
uint64_t read_completion_ts(ibv_cq_ex* cq) noexcept {
  return ours<Cq>(cq).taken_ns;
}
uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) noexcept {
  return ours<Cq>(cq).taken_of_day_ns;
}
uint16_t read_cvlan(ibv_cq_ex* /*cq*/) noexcept {
  return 0;
}
uint32_t read_flow_tag(ibv_cq_ex* /*cq*/) noexcept {
  return 0;
}
void read_tm_info(ibv_cq_ex* /*cq*/, ibv_wc_tm_info* out) noexcept {
  *out = {};
}

void set_poll_calls(ibv_cq_ex& cq) noexcept {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = read_opcode;
  cq.read_vendor_err = read_vendor_err;
  cq.read_byte_len = read_byte_len;
  cq.read_imm_data = read_imm_data;
  cq.read_qp_num = read_qp_num;
  cq.read_src_qp = read_src_qp;
  cq.read_wc_flags = read_wc_flags;
  cq.read_slid = read_slid;
  cq.read_sl = read_sl;
  cq.read_dlid_path_bits = read_dlid_path_bits;
  cq.read_completion_ts = read_completion_ts;
  cq.read_cvlan = read_cvlan;
  cq.read_flow_tag = read_flow_tag;
  cq.read_tm_info = read_tm_info;
  cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
  return guarded(static_cast<ibv_cq_ex*>(nullptr), [&]() -> ibv_cq_ex* {
    const uint32_t flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    if ((attr->comp_mask & ~kKnownCqMask) != 0 || (flags & ~kKnownFlags) != 0 ||
        (attr->wc_flags & ~kFields) != 0) {
      explain(
          "ibv_create_cq_ex: comp_mask {:#x}, flags {:#x}, wc_flags {:#x}: only {:#x}, {:#x}, {:#x} are "
          "supported",
          attr->comp_mask, flags, attr->wc_flags, kKnownCqMask, kKnownFlags, kFields);
      return no_object(EOPNOTSUPP);
    }
    const bool locked = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) == 0;
    // Before the CQ, because this allocation may throw.
    auto lock = locked ? std::make_unique<CallLock>() : nullptr;
    Cq* made = make_cq(context, {.entries = attr->cqe,
                                 .vector = attr->comp_vector,
                                 .channel = attr->channel,
                                 .user = attr->cq_context});
    if (made == nullptr) return nullptr;
    made->lock = std::move(lock);
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) made->domain = use_parent(attr->parent_domain);
    made->stamps = (attr->wc_flags & kStamps) != 0;
    set_poll_calls(made->c);
    return &made->c;
  });
}

/// Moderation is not offered; events are not delayed.
int modify_cq(ibv_cq* /*cq*/, ibv_modify_cq_attr* attr) noexcept {
  no_throw(0, [&] {
    explain("ibv_modify_cq: attr_mask {:#x}: moderation is not offered", attr->attr_mask);
    return 0;
  });
  return fail(EOPNOTSUPP);
}

}  // namespace weft::verbs
