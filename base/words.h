// base/words.h -- lists of words in messages for people: what is known, and which of it a mistyped word may
// have meant.
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
/// The end of a message about a word that is not known: "; did you mean 'x'? known: x, y" or "; known: x, y".
[[nodiscard]] std::string choices(std::string_view word, const std::vector<std::string>& known);

}  // namespace weft
