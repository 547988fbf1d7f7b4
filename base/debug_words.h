// base/debug_words.h -- the words of WEFT_DEBUG, which choose what a program reports on standard error.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weft {

inline constexpr std::array<std::string_view, 2> kDebugWords{"verbs", "cm"};

/// True if the comma-separated list `value` contains `word`, or "all" or "1", which mean every word.
[[nodiscard]] bool has_debug_word(std::string_view value, std::string_view word) noexcept;
/// A warning that names the unknown words in `value`; empty if all are known.
[[nodiscard]] std::string unknown_debug_words(std::string_view value);

}  // namespace weft
