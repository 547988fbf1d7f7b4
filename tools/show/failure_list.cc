#include "tools/show/failure_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "messages/failure.h"

namespace weft::tools {
namespace {

constexpr std::string_view kPlace = ".failed.";

/// Splits "one.failed.3.qp" into node and place ("one.failed.3") and gauge ("qp").
bool split(const std::string& name, std::string& place, std::string& label) {
  const size_t at = name.rfind(kPlace);
  const size_t last = name.rfind('.');
  if (at == std::string::npos || last < at + kPlace.size()) return false;
  place = name.substr(0, last);
  label = name.substr(last + 1);
  return true;
}

}  // namespace

std::vector<NodeFailure> take_failures(CounterValues& values) {
  constexpr auto kLabels = CounterSet<FailureGauge>::kLabels;
  std::map<std::string, FailureGauges> places;
  for (auto at = values.begin(); at != values.end();) {
    std::string place;
    std::string label;
    const auto known =
        split(at->first, place, label) ? std::find(kLabels.begin(), kLabels.end(), label) : kLabels.end();
    if (known == kLabels.end()) {
      ++at;
      continue;
    }
    places[place][static_cast<size_t>(known - kLabels.begin())] = at->second;
    at = values.erase(at);
  }
  std::map<std::pair<std::string, uint64_t>, std::string> ordered;
  for (const auto& [place, gauges] : places) {
    if (gauges[static_cast<size_t>(FailureGauge::kNumber)] == 0) continue;  // the place is unused
    const std::string node = place.substr(0, place.rfind(kPlace));
    ordered[{node, gauges[static_cast<size_t>(FailureGauge::kNumber)]}] = describe(failure_of(gauges));
  }
  std::vector<NodeFailure> out;
  out.reserve(ordered.size());
  for (const auto& [key, text] : ordered) out.push_back({key.first, text});
  return out;
}

}  // namespace weft::tools
