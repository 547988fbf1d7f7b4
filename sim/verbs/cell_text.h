// sim/verbs/cell_text.h -- a cell on a link as text.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weft::sim::verbs {

/// One line for a cell that fills its flit; empty if the bytes are no cell.
[[nodiscard]] std::string text_of_cell(std::span<const std::byte> cell);

}  // namespace weft::sim::verbs
