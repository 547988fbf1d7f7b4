#include "base/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.';
}

std::string name_fault(std::string_view name, size_t bytes_max, std::string_view what) {
  if (name.starts_with('-') || name.starts_with('.'))
    return fmt::format("'{}' cannot name {}: a name may not begin with '{}'", name, what, name.front());
  if (!name.empty() && name.size() <= bytes_max && std::all_of(name.begin(), name.end(), is_name_character))
    return {};
  return fmt::format("'{}' cannot name {}: use 1 to {} letters, digits, '-', '_' and '.'", name, what,
                     bytes_max);
}

}  // namespace weft
