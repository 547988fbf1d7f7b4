// verbs/explain.h -- WEFT_DEBUG=verbs: why a call was refused, in one line on standard error.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace weft::verbs {

/// WEFT_DEBUG, words with commas between them, has this one.
[[nodiscard]] bool debug_names(std::string_view word) noexcept;
/// It has "verbs". Read once.
[[nodiscard]] bool explains() noexcept;
void explain_line(std::string_view text) noexcept;

template <class... Args>
void explain(fmt::format_string<Args...> format, Args&&... args) {
  if (explains()) explain_line(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace weft::verbs
