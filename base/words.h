// base/words.h -- lists of words for messages to people: the known words, and the one that a mistyped word
// may mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// "a, b, c"; "none" when there are no words.
[[nodiscard]] std::string joined(const std::vector<std::string>& words);
/// The nearest of `known` to a mistyped `word`, as "; did you mean 'x'?", or empty. Words of more than 64
/// bytes resemble nothing.
[[nodiscard]] std::string suggestion(std::string_view word, const std::vector<std::string>& known);
/// `text` made safe for a terminal or log: control characters and bytes that are no UTF-8 become \xNN, so
/// that a peer cannot control the terminal. `keep_lines`: line ends and tabs stay.
[[nodiscard]] std::string printable(std::string_view text, bool keep_lines = false);
/// Bytes of the UTF-8 character at the front of `text`; 0 when there is none.
[[nodiscard]] size_t utf8_bytes(std::string_view text) noexcept;
/// The end of a message about an unknown word: "; did you mean 'x'? known: x, y" or "; known: x, y".
[[nodiscard]] std::string choices(std::string_view word, const std::vector<std::string>& known);

}  // namespace weft
