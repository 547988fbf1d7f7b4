#include "base/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

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

size_t utf8_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto at = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint32_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return 0;
  uint32_t code = lead & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xC0U) != 0x80) return 0;
    code = code << 6 | (at(i) & 0x3FU);
  }
  constexpr std::array<uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  return code < kLeast[bytes] || code > 0x10FFFF || surrogate ? 0 : bytes;
}

std::string printable(std::string_view text, bool keep_lines) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const auto first = static_cast<uint8_t>(text[0]);
    const bool c1 = bytes == 2 && first == 0xC2 && static_cast<uint8_t>(text[1]) < 0xA0;
    const bool kept = keep_lines && (first == '\n' || first == '\t');
    if (bytes == 0 || c1 || (!kept && (first < 0x20 || first == 0x7F))) {
      for (size_t i = 0; i < std::max<size_t>(bytes, 1); ++i)
        out += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[i]));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out;
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? std::string("none") : fmt::format("{}", fmt::join(words, ", "));
}

std::string choices(std::string_view word, const std::vector<std::string>& known) {
  const std::string meant = suggestion(word, known);
  return fmt::format("{}{} known: {}", meant, meant.empty() ? ";" : "", joined(known));
}

}  // namespace weft
