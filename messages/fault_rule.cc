#include "messages/fault_rule.h"

#include <algorithm>

namespace weft {
namespace {

constexpr std::array<std::string_view, 3> kDirections{"both", "from", "to"};

consteval bool kinds_stand_in_order() {
  for (size_t i = 0; i < kFaultKinds.size(); ++i)
    if (static_cast<size_t>(kFaultKinds[i].kind) != i) return false;
  return true;
}
static_assert(kinds_stand_in_order(), "a kind is the number of its row");

}  // namespace

const FaultKindInfo& info_of(FaultKind kind) noexcept {
  return kFaultKinds.at(static_cast<size_t>(kind));
}

std::string_view to_string(FaultKind kind) noexcept {
  return info_of(kind).name;
}

std::string_view to_string(FaultDirection direction) noexcept {
  return kDirections.at(static_cast<size_t>(direction));
}

std::optional<FaultKind> fault_kind(std::string_view word) noexcept {
  for (const FaultKindInfo& row : kFaultKinds)
    if (row.name == word) return row.kind;
  return {};
}

std::optional<FaultDirection> fault_direction(std::string_view word) noexcept {
  const auto* const found = std::find(kDirections.begin(), kDirections.end(), word);
  if (found == kDirections.end()) return {};
  return static_cast<FaultDirection>(found - kDirections.begin());
}

}  // namespace weft
