// verbs/completion.h -- completions as libibverbs has them, and CQs of both kinds.
#pragma once

#include <endian.h>
#include <infiniband/verbs.h>
#include <sched.h>

#include <cstdint>

#include "verbs/objects.h"

namespace weft::verbs {

/// Immediate data in network order, or the key that was invalidated.
[[nodiscard]] inline uint32_t imm_of(const adapter::WorkCompletion& entry) noexcept {
  return (entry.flags & adapter::kWcWithInvalidate) != 0 ? entry.invalidated.value() : htobe32(entry.imm);
}

[[nodiscard]] inline uint32_t flags_of(const adapter::WorkCompletion& entry) noexcept {
  constexpr uint32_t kKnown = adapter::kWcGrh | adapter::kWcWithImm | adapter::kWcWithInvalidate;
  static_assert(kKnown == (IBV_WC_GRH | IBV_WC_WITH_IMM | IBV_WC_WITH_INV));
  return entry.flags & kKnown;
}

/// After a poll that found nothing. A program that spins leaves its core now and then: the switch, or the
/// peer it waits for, may have no other. True when it did: then its caller looks again, for what has come
/// meanwhile comes before anything that the program asks about next, such as the end of the connection.
[[nodiscard]] inline bool paused_as_idle(Cq& queue) noexcept {
  constexpr uint32_t kPollsBeforeYield = 8;
  if (++queue.empty_polls % kPollsBeforeYield != 0) return false;
  sched_yield();
  return true;
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
