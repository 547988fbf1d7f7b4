// verbs/explain/refusals.h -- what a refused call returns and explains: the errno of its reason; the
// attribute, its value, what is allowed.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/refusal.h"
#include "verbs/c_call.h"
#include "verbs/explain/explain.h"
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
[[nodiscard]] std::string post_words(Reason why, const Qp& qp, const PostFacts* send);
/// Explains why a post to `qp` was refused.
void explain_post(const char* call, const Qp& qp, Reason why, const PostFacts* send) noexcept;
/// Why the adapter refused a change of `qp`, with the value and what is allowed.
[[nodiscard]] std::string change_words(Reason why, const Qp& qp, adapter::QpState from,
                                       const adapter::QpAttr& attr, uint32_t mask, uint32_t ports);

/// Explains a refused call in `words`; `call` has its name and values. Sets errno. @return the errno; 0 for
/// kOk
template <class... Args>
int fail_with(Reason why, std::string_view words, fmt::format_string<Args...> call, Args&&... args) noexcept {
  if (why == Reason::kOk) return 0;
  guarded(0, [&] {
    if (explains()) explain("{}: {}", fmt::format(call, std::forward<Args>(args)...), words);
    return 0;
  });
  return fail(why);
}
/// The same in the words of the table.
template <class... Args>
int fail(Reason why, fmt::format_string<Args...> call, Args&&... args) noexcept {
  return fail_with(why, to_string(why), call, std::forward<Args>(args)...);
}
/// For calls that end an object. `users` says which objects still use it, and how to end them.
template <class... Args>
int fail_in_use(Reason why, std::string_view users, fmt::format_string<Args...> call,
                Args&&... args) noexcept {
  return fail_with(why, why == Reason::kBusy ? users : to_string(why), call, std::forward<Args>(args)...);
}

/// The adapter's text without its name of the call, or the words of the table.
[[nodiscard]] std::string refusal_words(const Refusal& why);
/// For calls that return a null pointer.
template <class... Args>
decltype(nullptr) no_object(const Refusal& why, fmt::format_string<Args...> call, Args&&... args) noexcept {
  guarded(0, [&] {
    if (explains()) explain("{}: {}", fmt::format(call, std::forward<Args>(args)...), refusal_words(why));
    return 0;
  });
  return no_object(errno_of(why.reason()));
}

}  // namespace weft::verbs
