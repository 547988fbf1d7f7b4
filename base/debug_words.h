// base/debug_words.h -- the words of WEFT_DEBUG: what a program says of itself on standard error.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace weft {

inline constexpr std::array<std::string_view, 2> kDebugWords{"verbs", "cm"};

/// `value` has words with commas between them: this one, or "all" or "1", which stand for each.
[[nodiscard]] bool has_debug_word(std::string_view value, std::string_view word) noexcept;
/// What to say of words in `value` that are not known; empty when all are.
[[nodiscard]] std::string unknown_debug_words(std::string_view value);

}  // namespace weft
