// base/names.h -- what nodes, fabrics, namespaces and interfaces may be called: names become file names and
// words of command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_name_character(char c) noexcept;
/// Why `name` cannot be the name of `what` ("a node"): 1 to `bytes_max` letters, digits, '-', '_' and '.', of
/// which the first is no '-' and no '.'. Empty when it can.
[[nodiscard]] std::string name_fault(std::string_view name, size_t bytes_max, std::string_view what);

}  // namespace weft
