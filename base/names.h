// base/names.h -- which names nodes, fabrics, namespaces and interfaces may have. Names become file names and
// words of command lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

/// Letters, digits, '-', '_' and '.'.
[[nodiscard]] bool is_name_character(char c) noexcept;
/// Why `name` is not allowed as the name of `what` ("a node"); empty if it is allowed. Names have 1 to
/// `bytes_max` letters, digits, '-', '_' and '.', and do not begin with '-' or '.'.
[[nodiscard]] std::string name_fault(std::string_view name, size_t bytes_max, std::string_view what);

}  // namespace weft
