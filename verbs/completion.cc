// Completion channels and queues.
#include "verbs/completion.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/refusals.h"
#include "verbs/process/process_node.h"

namespace weft::verbs {

static_assert(static_cast<int>(adapter::WcStatus::kGeneral) == IBV_WC_GENERAL_ERR &&
              static_cast<int>(adapter::WcStatus::kRetryExceeded) == IBV_WC_RETRY_EXC_ERR &&
              static_cast<int>(adapter::WcOpcode::kRecvRdmaWithImm) == IBV_WC_RECV_RDMA_WITH_IMM &&
              static_cast<int>(adapter::WcOpcode::kLocalInvalidate) == IBV_WC_LOCAL_INV);

thread_local constinit YieldPolicy yield_policy;

namespace {

/// Least size of a CQ; a CQ may have more entries than requested. ib_send_lat -e requests one entry and polls
/// one per message. After a lost acknowledgement its queue permanently holds one entry more.
constexpr uint32_t kCqesAtLeast = 16;
/// Completions taken from the adapter per call; they are kept on the stack.
constexpr size_t kPolledAtATime = 16;

/// Number of CQs that use the channel. The program may read the field while its threads create and destroy
/// CQs. ibv_destroy_cq() counts down with its last access to the channel: it may wait for acknowledgements
/// when the device's own count is down already.
std::atomic_ref<int> users_of(ibv_comp_channel& channel) noexcept {
  return std::atomic_ref<int>(channel.refcnt);
}

void translate(const adapter::WorkCompletion& in, ibv_wc& out) noexcept {
  out.wr_id = in.wr_id;
  out.status = static_cast<ibv_wc_status>(in.status);
  out.opcode = static_cast<ibv_wc_opcode>(in.opcode);
  out.vendor_err = vendor_code_of(in);
  out.byte_len = in.byte_count;
  out.imm_data = imm_of(in);
  out.qp_num = in.qpn.value();
  out.src_qp = in.src_qpn.value();
  out.wc_flags = flags_of(in);
  out.pkey_index = in.pkey_index;
  out.slid = in.src_lid.value();
  out.sl = in.sl.value();
  out.dlid_path_bits = 0;
}

/// Room for entries that a poll writes. It is not cleared: that takes longer than a poll that finds nothing.
class PolledEntries {
 public:
  [[nodiscard]] std::span<adapter::WorkCompletion> first(size_t count) noexcept {
    return {std::launder(reinterpret_cast<adapter::WorkCompletion*>(bytes_.data())), count};
  }

 private:
  // An aggregate that is copied as bytes: its objects begin with the array of bytes.
  static_assert(std::is_aggregate_v<adapter::WorkCompletion> &&
                std::is_trivially_copyable_v<adapter::WorkCompletion>);
  alignas(
      adapter::WorkCompletion) std::array<std::byte, kPolledAtATime * sizeof(adapter::WorkCompletion)> bytes_;
};

int poll_once(Cq& queue, int entries, ibv_wc* out, Instant& at) noexcept {
  PolledEntries taken;
  int done = 0;
  while (done < entries) {
    const size_t wanted = std::min(kPolledAtATime, static_cast<size_t>(entries - done));
    const std::span<adapter::WorkCompletion> room = taken.first(wanted);
    const int got = queue.object->poll(room, at);
    if (got < 0) return done != 0 ? done : -1;
    for (int i = 0; i < got; ++i) translate(room[static_cast<size_t>(i)], out[done + i]);
    done += got;
    if (static_cast<size_t>(got) < wanted) break;
  }
  return done;
}

/// For a thread in ibv_get_cq_event().
std::string unarmed_words(const void* channel) {
  if (static_cast<const hca::CompletionChannel*>(channel)->armed() != 0) return {};
  return "ibv_get_cq_event: waits for ever, because no CQ of this completion channel is armed: call "
         "ibv_req_notify_cq before the wait, and again after each event";
}

/// For a thread in ibv_destroy_cq().
std::string unacknowledged_words(const void* /*of*/) {
  return "ibv_destroy_cq: waits until each event of this CQ that ibv_get_cq_event has returned is "
         "acknowledged: call ibv_ack_cq_events";
}

}  // namespace

int poll_cq(ibv_cq* cq, int entries, ibv_wc* out) noexcept {
  if (entries <= 0) return 0;
  Cq& queue = ours(cq);
  if (queue.lock != nullptr && !queue.lock->enter("ibv_poll_cq", {"CQ", cq->handle, cq->context})) return -1;
  const int got = poll_and_yield([&](Instant& at) { return poll_once(queue, entries, out, at); });
  if (queue.lock != nullptr) queue.lock->leave();
  if (queue.empty != nullptr) [[unlikely]]
    queue.empty->polled(*queue.object, got);
  return got;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  return fail(ours(cq).object->arm(solicited_only != 0));
}

Cq* make_cq(ibv_context* context, const CqRequest& request) {
  OpenContext& opened = ours(context);
  auto out = std::make_unique<Cq>();
  if (explains()) out->empty = std::make_unique<EmptyPolls>();
  hca::CompletionChannel* channel =
      request.channel != nullptr ? ours<Channel>(request.channel).object : nullptr;
  const hca::Made<hca::Cq> made = opened.context->create_cq(
      request.entries == 0 ? 0 : std::max(request.entries, kCqesAtLeast), channel, out.get(), request.vector);
  if (made.object == nullptr) return no_object(made.refusal, "ibv_create_cq");
  out->object = made.object;
  static std::atomic<uint32_t> handles{0};
  out->c.context = context;
  out->c.handle = ++handles;
  out->c.channel = request.channel;
  out->c.cq_context = request.user;
  out->c.cqe = static_cast<int>(made.object->query().depth);
  pthread_mutex_init(&out->c.mutex, nullptr);
  pthread_cond_init(&out->c.cond, nullptr);
  if (request.channel != nullptr) users_of(*request.channel).fetch_add(1, std::memory_order_relaxed);
  return out.release();
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace hca = weft::hca;

WEFT_VERBS_API ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return guarded(static_cast<ibv_comp_channel*>(nullptr), [&]() -> ibv_comp_channel* {
    auto out = std::make_unique<Channel>();
    const hca::Made<hca::CompletionChannel> made = ours(context).context->create_channel();
    if (made.object == nullptr) return no_object(made.refusal, "ibv_create_comp_channel");
    out->object = made.object;
    out->c = {.context = context, .fd = made.object->fd(), .refcnt = 0};
    return &out.release()->c;
  });
}

WEFT_VERBS_API int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const int users = users_of(*channel).load(std::memory_order_acquire);
  const weft::Reason why = users != 0
                               ? weft::Reason::kBusy
                               : ours(channel->context).context->destroy(ours<Channel>(channel).object);
  if (why == weft::Reason::kBusy)
    return fail_with(why, "call ibv_destroy_cq first", "ibv_destroy_comp_channel: {} CQs still use it",
                     std::max(users, 1));
  if (why != weft::Reason::kOk) return fail(why, "ibv_destroy_comp_channel");
  const std::unique_ptr<Channel> owned(&ours<Channel>(channel));
  return 0;
}

WEFT_VERBS_API ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel* channel,
                                     int vector) {
  return guarded(static_cast<ibv_cq*>(nullptr), [&]() -> ibv_cq* {
    Cq* made = make_cq(context, {.entries = static_cast<uint32_t>(std::max(entries, 0)),
                                 .vector = static_cast<uint32_t>(vector),
                                 .channel = channel,
                                 .user = user});
    return made != nullptr ? plain(*made) : nullptr;
  });
}

WEFT_VERBS_API int ibv_resize_cq(ibv_cq* cq, int entries) {
  return guarded(ENOMEM, [&] {
    Cq& queue = ours(cq);
    const weft::Reason why = queue.object->resize(static_cast<uint32_t>(std::max(entries, 0)));
    if (why != weft::Reason::kOk)
      return fail(why, "ibv_resize_cq: cqe {}, with {} entries in the queue", entries,
                  queue.object->query().fill);
    cq->cqe = static_cast<int>(queue.object->query().depth);
    return 0;
  });
}

WEFT_VERBS_API int ibv_destroy_cq(ibv_cq* cq) {
  Cq& queue = ours(cq);
  const LongWaits::Call wait(ours(cq->context).node->waits(), unacknowledged_words, nullptr);
  const weft::Reason why = ours(cq->context).context->destroy(queue.object);
  if (why != weft::Reason::kOk)
    return fail_in_use(why, "QPs or XRC SRQs still use it: call ibv_destroy_qp or ibv_destroy_srq first",
                       "ibv_destroy_cq");
  if (cq->channel != nullptr) users_of(*cq->channel).fetch_sub(1, std::memory_order_release);
  pthread_mutex_destroy(&cq->mutex);
  pthread_cond_destroy(&cq->cond);
  const std::unique_ptr<Cq> owned(&queue);
  return 0;
}

WEFT_VERBS_API int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** user) {
  hca::Cq* told = nullptr;
  const LongWaits::Call wait(ours(channel->context).node->waits(), unarmed_words,
                             ours<Channel>(channel).object);
  const weft::Reason why = ours<Channel>(channel).object->get_event(told);
  if (why != weft::Reason::kOk) return failed(errno_of(why));
  *cq = plain(*static_cast<Cq*>(told->user()));
  *user = (*cq)->cq_context;
  return 0;
}

/// Counts first in the C struct: after the count of the adapter's object, another thread may destroy the CQ.
WEFT_VERBS_API void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  count_acknowledged(*cq, cq->comp_events_completed, count);
  ours(cq).object->ack_events(count);
}
