#include "tools/show/stat_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tools/show/counter_words.h"

namespace weft::tools {
namespace {

constexpr size_t kRateColumns = 11;
constexpr size_t kValueColumns = 20;    // digits of the largest 64-bit number
constexpr size_t kNameColumnsMin = 30;  // of a name that is still told from others
constexpr size_t kGap = 2;
constexpr std::string_view kTotal = "total";
constexpr size_t kRowsMin = 5;  // title, what blocks, header, how many more, and the line that stays free

struct Row {
  std::string name;
  std::string value;
  double rate = 0;  // per second
};

Row row_of(const StatScreen& screen, const std::string& name, uint64_t value) {
  Row row{name, counter_text(name, value)};
  if (counter_kind(name) == CounterKind::kCounter)
    row.rate = static_cast<double>(growth(screen.before, name, value)) / screen.seconds;
  return row;
}

/// Shortens a name in the middle, because its beginning (the node) and its last word are the most important
/// parts.
std::string name_within(const std::string& name, size_t columns) {
  if (name.size() <= columns) return name;
  const size_t last = name.size() - std::min(name.rfind('.'), name.size() - 1);
  if (last + 3 > columns) return ".." + name.substr(name.size() - (columns - 2));
  return name.substr(0, columns - last - 2) + ".." + name.substr(name.size() - last);
}

/// Widths of a row without that of the rate.
struct Columns {
  size_t name;
  size_t value;
  size_t gap;  // between name and value
};

/// In a narrow window the column of totals is only as wide as the widest total. It gives way if names get too
/// short: the rates say what happens now.
Columns columns_for(size_t window, size_t widest) {
  for (const size_t value : {kValueColumns, std::max(widest, kTotal.size())}) {
    const size_t taken = value + kRateColumns + 2 * kGap;
    if (window >= taken + kNameColumnsMin) return {window - taken, value, kGap};
  }
  return {std::max(window, kRateColumns + 2 * kGap) - kRateColumns - kGap, 0, 0};
}

}  // namespace

std::string rate_text(const std::string& name, double per_second) {
  constexpr std::array<std::string_view, 5> kScales{"", "k", "M", "G", "T"};
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const std::string_view unit = last.find("bytes") != std::string_view::npos ? "B/s" : "/s";
  size_t scale = 0;
  while (per_second >= 999.5 && scale + 1 < kScales.size()) {
    per_second /= 1000;
    ++scale;
  }
  const int digits = scale == 0 || per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}", per_second, digits, kScales.at(scale), unit);
}

std::vector<std::string> stat_table(const StatScreen& screen) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : screen.after) {
    if (!screen.all && value == 0) continue;
    const Row row = row_of(screen, name, value);
    lines.push_back(row.rate == 0 ? fmt::format("{:<60} {:>18}", row.name, row.value)
                                  : fmt::format("{:<60} {:>18} {:>14.0f}/s", row.name, row.value, row.rate));
  }
  return lines;
}

std::vector<std::string> stat_screen(const StatScreen& screen, const Window& window) {
  std::vector<Row> rows;
  for (const auto& [name, value] : screen.after) {
    Row row = row_of(screen, name, value);
    if (screen.all || row.rate != 0) rows.push_back(std::move(row));
  }
  if (screen.order == StatOrder::kRate)
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.rate > b.rate; });

  const size_t height = std::max(window.rows, kRowsMin) - 1;
  std::vector<std::string> lines{screen.title};
  for (const std::string& remark : screen.remarks) lines.push_back(remark);
  lines.push_back(screen.blocked.empty() ? "nothing blocks" : "what blocks:");
  const size_t most = std::max<size_t>(height / 3, lines.size() + 1);
  for (const std::string& line : screen.blocked) lines.push_back("  " + line);
  if (!screen.failures.empty()) lines.push_back("latest failures:");
  for (const std::string& line : screen.failures) lines.push_back("  " + line);
  if (lines.size() > most) {
    const size_t hidden = lines.size() - most + 1;
    lines.resize(most - 1);
    lines.push_back(fmt::format("  and {} more; weft stat without --watch names them", hidden));
  }
  size_t widest = 0;
  for (const Row& row : rows) widest = std::max(widest, row.value.size());
  const Columns columns = columns_for(window.columns, widest);
  const auto line_of = [&columns](const std::string& name, const std::string& value,
                                  const std::string& rate) {
    return fmt::format("{:<{}}{:>{}}{:>{}}", name_within(name, columns.name), columns.name + columns.gap,
                       columns.value == 0 ? "" : value, columns.value, rate, kRateColumns + kGap);
  };
  lines.push_back(line_of("counter", std::string(kTotal), "per second"));
  const size_t room = height > lines.size() ? height - lines.size() : 0;
  const size_t shown = rows.size() <= room ? rows.size() : std::max<size_t>(room, 1) - 1;
  for (size_t i = 0; i < shown; ++i)
    lines.push_back(
        line_of(rows[i].name, rows[i].value, rows[i].rate == 0 ? "" : rate_text(rows[i].name, rows[i].rate)));
  if (shown < rows.size()) lines.push_back(fmt::format("{} more", rows.size() - shown));
  for (std::string& line : lines) line = fitted(line, window.columns);
  if (lines.size() > height) lines.resize(height);
  return lines;
}

}  // namespace weft::tools
