#include "verbs/explain/fault_note.h"

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

/// The entries `fault.N.*` of a page.
class ShownFaults {
 public:
  explicit ShownFaults(const std::string& path) {
    auto page = read_stats_page(path);
    if (page.ok()) values_.insert(page.value().begin(), page.value().end());
  }
  [[nodiscard]] uint64_t value(size_t place, std::string_view label) const {
    const auto found = values_.find(fmt::format("fault.{}.{}", place, label));
    return found == values_.end() ? uint64_t{0} : found->second;
  }

 private:
  std::map<std::string, uint64_t> values_;
};

}  // namespace

std::string fault_note(const std::string& endpoint, Guid own) {
  const size_t begin = endpoint.find('/');
  if (begin == std::string::npos || !endpoint.ends_with(kSocket)) return {};
  const std::string base = endpoint.substr(begin, endpoint.size() - begin - kSocket.size());
  const ShownFaults faults(base + ".stats");
  std::string out;
  for (size_t place = 0; faults.value(place, "number") != 0; ++place) {
    const uint64_t struck = faults.value(place, "struck");
    if (struck == 0) continue;
    out += fmt::format("; fault {}:{} is in force for {} and has struck {} cells",
                       base.substr(base.rfind('/') + 1), faults.value(place, "number"),
                       target_of(faults.value(place, "guid"), faults.value(place, "port"), own), struck);
  }
  return out;
}

std::string window_fault_note(const std::string& page) {
  const ShownFaults faults(page);
  std::string out;
  for (size_t place = 0; faults.value(place, "number") != 0; ++place) {
    const uint64_t struck = faults.value(place, "struck");
    if (struck == 0) continue;
    out += fmt::format(
        "; fault {} is in force for the memory windows of this program and has struck {} DMA requests",
        faults.value(place, "number"), struck);
  }
  return out;
}

}  // namespace weft::verbs
