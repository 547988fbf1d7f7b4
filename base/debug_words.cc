#include "base/debug_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace weft {
namespace {

/// Calls `each` for the words of a value of WEFT_DEBUG.
template <class Each>
void for_each_word(std::string_view left, Each each) {
  while (!left.empty()) {
    const size_t end = std::min(left.find(','), left.size());
    if (end != 0) each(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
}

bool is_everything(std::string_view word) noexcept {
  return word == "all" || word == "1";
}

}  // namespace

bool has_debug_word(std::string_view value, std::string_view word) noexcept {
  bool found = false;
  for_each_word(value, [&](std::string_view each) { found = found || each == word || is_everything(each); });
  return found;
}

std::string unknown_debug_words(std::string_view value) {
  std::string unknown;
  for_each_word(value, [&](std::string_view word) {
    const bool known = std::find(kDebugWords.begin(), kDebugWords.end(), word) != kDebugWords.end();
    if (!known && !is_everything(word)) unknown += fmt::format("{}'{}'", unknown.empty() ? "" : ", ", word);
  });
  if (unknown.empty()) return {};
  return fmt::format("WEFT_DEBUG: unknown {}; known are {} and all", unknown, fmt::join(kDebugWords, ", "));
}

}  // namespace weft
