// verbs/refusals.h -- why a change of a QP was refused: which attribute, its value, what is allowed.
#pragma once

#include <string>

#include "verbs/objects.h"

namespace weft::verbs {

/// Of a send request that was refused.
struct PostFacts {
  adapter::SendOpcode opcode{};
  size_t segments = 0;
  uint64_t bytes = 0;  // of all segments
  bool is_inline = false;
};
[[nodiscard]] PostFacts facts_of(const ibv_send_wr& wr) noexcept;

/// What kept a request from being posted, with the value and what is allowed; `send` is null for a receive.
[[nodiscard]] std::string post_words(adapter::PostResult why, const Qp& qp, const PostFacts* send);
/// Says why the last post to `qp` was refused; `unknown` when it did not come as far as the adapter.
void explain_post(const char* call, const Qp& qp, const char* unknown, const PostFacts* send) noexcept;
/// Asks the adapter's tables again, after the adapter has refused.
[[nodiscard]] std::string why_not(const Qp& qp, adapter::QpState from, const adapter::QpAttr& attr,
                                  uint32_t mask, uint32_t ports);

}  // namespace weft::verbs
