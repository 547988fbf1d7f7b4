// verbs/explain.h -- WEFT_DEBUG: what the process says of itself on standard error. "verbs": why a call was
// refused, in one line. Why there is no device at all is said without it.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace weft::verbs {

/// WEFT_DEBUG has this word. The first call says on standard error which of its words are not known.
[[nodiscard]] bool debug_names(std::string_view word) noexcept;
/// It has "verbs". Read once.
[[nodiscard]] bool explains() noexcept;
void explain_line(std::string_view text) noexcept;

/// Whether or not WEFT_DEBUG says so: once for each process, every time with WEFT_DEBUG=verbs.
void explain_once(std::string_view text) noexcept;

template <class... Args>
void explain(fmt::format_string<Args...> format, Args&&... args) {
  if (explains()) explain_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft::verbs
