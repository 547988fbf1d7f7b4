// sim/fabric_checks.h -- invariants of links and switches: credits and cells are conserved. A check returns
// an empty text on success, else a description of the violation.
#pragma once

#include <cstdint>
#include <string>

#include "fabric/link/memory_link.h"
#include "fabric/switch/switch.h"
#include "sim/saboteur.h"

namespace weft::sim {

/// On each lane no total of one end is ahead of the total at the other end that it answers. Then granted -
/// sent = free is equivalent to free + in flight + held + not yet reported = capacity. Holds at every moment
/// while the link is up at both ends.
[[nodiscard]] std::string check_credits(fabric::MemoryCable& cable, uint32_t lanes);
/// With nothing under way, all credits are back.
[[nodiscard]] std::string check_credits_at_rest(fabric::MemoryCable& cable, uint32_t lanes);
[[nodiscard]] SwitchCells count_switch_cells(const fabric::Switch& core);
/// Cells in = cells out + dropped cells + held cells, at every moment (SAN-NODE-01).
[[nodiscard]] std::string check_switch_cells(const SwitchCells& cells);

}  // namespace weft::sim
