// verbs/explain/explain.h -- WEFT_DEBUG: lines about the process on standard error. With "verbs", one line
// says why a call was refused. The reason why there is no device is printed without it.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace weft::verbs {

/// WEFT_DEBUG has this word. The first call prints a line about words in WEFT_DEBUG that are unknown.
[[nodiscard]] bool debug_names(std::string_view word) noexcept;
/// WEFT_DEBUG has "verbs". Read once.
[[nodiscard]] bool explains() noexcept;
void explain_line(std::string_view text) noexcept;

/// Prints the line once per process, whether or not WEFT_DEBUG is set, and every time with WEFT_DEBUG=verbs.
void explain_once(std::string_view text) noexcept;

template <class... Args>
void explain(fmt::format_string<Args...> format, Args&&... args) {
  if (explains()) explain_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft::verbs
