// sim/verbs/cell_text.h -- a cell on a link, for people.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace weft::sim::verbs {

/// One line for a cell that fills its flit; empty for what is none.
[[nodiscard]] std::string text_of_cell(std::span<const std::byte> cell);

}  // namespace weft::sim::verbs
