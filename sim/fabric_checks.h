// sim/fabric_checks.h -- the invariants of links and switches: credits and cells are conserved. Each check
// gives an empty text when all is well, else what is wrong.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "sim/saboteur.h"

namespace weft::sim {

/// Per lane no total of one end is ahead of the total of the other end it answers. Then granted - sent = free
/// is the same as free + in flight + held + not yet told = capacity. Holds at every moment of a link that is
/// up at both ends.
[[nodiscard]] std::string check_credits(fabric::MemoryCable& cable, uint32_t lanes);
/// Nothing is under way: every credit is back.
[[nodiscard]] std::string check_credits_at_rest(fabric::MemoryCable& cable, uint32_t lanes);
[[nodiscard]] SwitchCells count_switch_cells(const fabric::Switch& core);
/// Cells in = cells out + drops + cells that wait, at every moment (SAN-NODE-01).
[[nodiscard]] std::string check_switch_cells(const SwitchCells& cells);

}  // namespace weft::sim
