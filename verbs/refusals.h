// verbs/refusals.h -- explains why a call on a QP was refused: the attribute, its value, what is allowed.
#pragma once

#include <string>

#include "verbs/objects.h"

namespace weft::verbs {

/// Facts about a refused send request.
struct PostFacts {
  adapter::SendOpcode opcode{};
  size_t segments = 0;
  uint64_t bytes = 0;  // of all segments
  bool is_inline = false;
  uint32_t rkey = 0;
};
[[nodiscard]] PostFacts facts_of(const ibv_send_wr& wr) noexcept;

/// Why a request was not posted, with the value and what is allowed. `send` is null for a receive.
[[nodiscard]] std::string post_words(adapter::PostResult why, const Qp& qp, const PostFacts* send);
/// Explains why the last post to `qp` was refused with `error`. `unknown` is the reason if the request did
/// not reach the adapter.
void explain_post(const char* call, const Qp& qp, int error, const char* unknown,
                  const PostFacts* send) noexcept;
/// Why the adapter refused a change of `qp`, found by asking the adapter's tables again.
[[nodiscard]] std::string why_not(const Qp& qp, adapter::QpState from, const adapter::QpAttr& attr,
                                  uint32_t mask, uint32_t ports);

}  // namespace weft::verbs
