// verbs/completion.h -- completions as libibverbs has them, and CQs of both kinds.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>
#include <sched.h>

#include <cstdint>

#include "base/clock.h"
#include "base/yield_policy.h"
#include "verbs/objects.h"

namespace weft::verbs {

/// Why a request failed: the code of its Reason (messages/failure.h). 0 for one that did not.
[[nodiscard]] inline uint32_t vendor_code_of(const adapter::WorkCompletion& entry) noexcept {
  return entry.status == adapter::WcStatus::kSuccess ? 0 : entry.imm;
}

/// Immediate data in network order, or the key that was invalidated.
[[nodiscard]] inline uint32_t imm_of(const adapter::WorkCompletion& entry) noexcept {
  return (entry.flags & adapter::kWcWithInvalidate) != 0 ? entry.invalidated.value() : htobe32(entry.imm);
}

[[nodiscard]] inline uint32_t flags_of(const adapter::WorkCompletion& entry) noexcept {
  constexpr uint32_t kKnown = adapter::kWcGrh | adapter::kWcWithImm | adapter::kWcWithInvalidate;
  static_assert(kKnown == (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV));
  return entry.flags & kKnown;
}

/// Of this thread, whichever queues it polls.
extern thread_local constinit YieldPolicy yield_policy;

/// A poll as a program makes it. `poll(at)` looks once, and tells when; less than nothing is a failure. A
/// program that spins offers its core when there is nothing: the switch, or the peer it waits for, may have
/// no other. Then it looks again, for what has come meanwhile comes before anything that the program asks
/// about next, such as the end of the connection.
template <class Poll>
[[nodiscard]] int poll_and_yield(Poll&& poll) noexcept {
  YieldPolicy& yield = yield_policy;
  Instant at{};
  int got = poll(at);
  if (got == 0 && yield.yields(at)) {
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
/// Null, and errno, when there can be none.
[[nodiscard]] Cq* make_cq(ibv_context* context, const CqRequest& request);

}  // namespace weft::verbs
