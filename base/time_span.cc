#include "base/time_span.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/parse_number.h"

namespace weft {
namespace {

using Unit = std::pair<std::string_view, double>;
/// Units of time for input and output.
constexpr std::array<Unit, 6> kUnits{
    {{"ns", 1.0}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
/// Further units of time for input.
constexpr std::array<Unit, 12> kUnitWords{{{"nsec", 1.0},
                                           {"nsecs", 1.0},
                                           {"usec", 1e3},
                                           {"usecs", 1e3},
                                           {"msec", 1e6},
                                           {"msecs", 1e6},
                                           {"sec", 1e9},
                                           {"secs", 1e9},
                                           {"min", 60e9},
                                           {"mins", 60e9},
                                           {"hour", 3600e9},
                                           {"hours", 3600e9}}};
constexpr double kYearNs = 365.0 * 24 * 3600e9;

}  // namespace

std::optional<Duration> parse_time_span(std::string_view text) {
  const auto number = leading_number(text);
  if (!number || !(number->first >= 0)) return {};
  const auto is_word = [word = number->second](const Unit& unit) { return unit.first == word; };
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end(), is_word);
  if (unit == kUnits.end()) {
    unit = std::find_if(kUnitWords.begin(), kUnitWords.end(), is_word);
    if (unit == kUnitWords.end()) return {};
  }
  const double ns = number->first * unit->second;
  if (ns > kYearNs) return {};
  return Duration(std::llround(ns));
}

std::string format_time_span(Duration span) {
  for (size_t i = kUnits.size(); i-- > 1;) {
    const double in_unit = static_cast<double>(span.count()) / kUnits[i].second;
    if (in_unit >= 1) return fmt::format("{:g}{}", in_unit, kUnits[i].first);
  }
  return fmt::format("{}ns", span.count());
}

}  // namespace weft
