// verbs/completion.h -- completions in libibverbs' form, and making CQs of both kinds.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>
#include <sched.h>

#include <cstdint>

#include "base/clock.h"
#include "base/yield_policy.h"
#include "verbs/objects.h"

namespace weft::verbs {

/// vendor_err of a completion: the code of the failure's Reason (messages/failure.h); 0 on success.
[[nodiscard]] inline uint32_t vendor_code_of(const adapter::WorkCompletion& entry) noexcept {
  return entry.status == adapter::WcStatus::kSuccess ? 0 : entry.imm;
}

/// Immediate data in network byte order, or the invalidated key.
[[nodiscard]] inline uint32_t imm_of(const adapter::WorkCompletion& entry) noexcept {
  return (entry.flags & adapter::kWcWithInvalidate) != 0 ? entry.invalidated.value() : htobe32(entry.imm);
}

[[nodiscard]] inline uint32_t flags_of(const adapter::WorkCompletion& entry) noexcept {
  constexpr uint32_t kKnown = adapter::kWcGrh | adapter::kWcWithImm | adapter::kWcWithInvalidate;
  static_assert(kKnown == (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV));
  return entry.flags & kKnown;
}

/// One per thread, for all queues that the thread polls.
extern thread_local constinit YieldPolicy yield_policy;

/// One poll call of a program. `poll(at)` looks once and stores the time of the look in `at`; if `at` is
/// kNever, it may leave that when it did not need the time. A negative result is a failure. If the queue is
/// empty, the calling thread may yield its core: the switch, or the peer that the program waits for, may need
/// it. After a yield it looks again: a completion that arrived meanwhile must be seen before the program
/// checks anything else, such as the end of the connection.
template <class Poll>
[[nodiscard]] int poll_and_yield(Poll&& poll) noexcept {
  YieldPolicy& yield = yield_policy;
  Instant at = kNever;
  int got = poll(at);
  if (got == 0 && at != kNever && yield.yields(at)) {
    sched_yield();
    Instant back = at;
    got = poll(back);
    yield.yielded(at, back);
    at = back;
  }
  if (got != 0) yield.worked(at);
  return got;
}

struct CqRequest {
  uint32_t entries = 0;
  uint32_t vector = 0;
  ibv_comp_channel* channel = nullptr;
  void* user = nullptr;
};
/// Null, with errno set, when the CQ cannot be made.
[[nodiscard]] Cq* make_cq(ibv_context* context, const CqRequest& request);

}  // namespace weft::verbs
