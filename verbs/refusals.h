// verbs/refusals.h -- what a refused call returns and explains: the errno of its reason; the attribute, its
// value, what is allowed.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/refusal.h"
#include "verbs/c_call.h"
#include "verbs/explain.h"
#include "verbs/objects.h"

namespace weft::verbs {

/// Facts about a refused send request.
struct PostFacts {
  adapter::SendOpcode opcode{};
  size_t segments = 0;
  uint64_t bytes = 0;  // of all segments
  bool is_inline = false;
};
[[nodiscard]] PostFacts facts_of(const ibv_send_wr& wr) noexcept;

/// Why a request was not posted, with the value and what is allowed. `send` is null for a receive.
[[nodiscard]] std::string post_words(Reason why, const Qp& qp, const PostFacts* send);
/// Explains why a post to `qp` was refused.
void explain_post(const char* call, const Qp& qp, Reason why, const PostFacts* send) noexcept;
/// Why the adapter refused a change of `qp`, with the value and what is allowed.
[[nodiscard]] std::string change_words(Reason why, const Qp& qp, adapter::QpState from,
                                       const adapter::QpAttr& attr, uint32_t mask, uint32_t ports);

/// Explains a refused call; `call` has its name and values. Sets errno. @return the errno; 0 for kOk
template <class... Args>
int fail(Reason why, fmt::format_string<Args...> call, Args&&... args) noexcept {
  if (why == Reason::kOk) return 0;
  guarded(0, [&] {
    if (explains()) explain("{}: {}", fmt::format(call, std::forward<Args>(args)...), to_string(why));
    return 0;
  });
  return fail(why);
}
/// For calls that return a null pointer.
decltype(nullptr) no_object(const char* call, const Refusal& why) noexcept;

}  // namespace weft::verbs
