#include "verbs/fault_note.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string_view>

#include "base/stats_page.h"

namespace weft::verbs {
namespace {

constexpr std::string_view kSocket = ".sock";

std::string_view target_of(uint64_t guid, uint64_t port, Guid own) noexcept {
  if (guid != 0) return guid == own.value() ? "this program" : "another program";
  return port == 0 ? "the whole switch" : "a port of the switch";
}

}  // namespace

std::string fault_note(const std::string& endpoint, Guid own) {
  const size_t begin = endpoint.find('/');
  if (begin == std::string::npos || !endpoint.ends_with(kSocket)) return {};
  const std::string base = endpoint.substr(begin, endpoint.size() - begin - kSocket.size());
  auto page = read_stats_page(base + ".stats");
  if (!page.ok()) return {};
  const std::map<std::string, uint64_t> values(page.value().begin(), page.value().end());
  const auto value = [&](size_t place, std::string_view label) {
    const auto found = values.find(fmt::format("fault.{}.{}", place, label));
    return found == values.end() ? uint64_t{0} : found->second;
  };
  std::string out;
  for (size_t place = 0; value(place, "number") != 0; ++place) {
    const uint64_t struck = value(place, "struck");
    if (struck == 0) continue;
    out += fmt::format("; fault {}:{} is in force for {} and has struck {} cells",
                       base.substr(base.rfind('/') + 1), value(place, "number"),
                       target_of(value(place, "guid"), value(place, "port"), own), struck);
  }
  return out;
}

}  // namespace weft::verbs
