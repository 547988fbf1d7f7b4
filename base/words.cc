#include "base/words.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

/// Edit distance, for short words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_distance = 3;
  if (word.size() > 64) return {};
  for (const std::string& candidate : known) {
    const size_t d = distance(word, candidate);
    if (d >= best_distance || d >= candidate.size()) continue;
    best_distance = d;
    best = &candidate;
  }
  return best == nullptr ? std::string{} : fmt::format("; did you mean '{}'?", *best);
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? std::string("none") : fmt::format("{}", fmt::join(words, ", "));
}

std::string choices(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = suggestion(word, known);
  return fmt::format("{}{} known: {}", meant, meant.empty() ? ";" : "", joined(known));
}

}  // namespace weft
