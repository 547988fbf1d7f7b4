// sim/cell_scenario.h -- cells between link endpoints, without queue pairs. Checks what links and switches
// alone promise: cells keep their order, and none is lost while every link on the path stays up.
#pragma once

#include <memory>

#include "base/rng.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"
#include "sim/scenario.h"

namespace weft::sim {

/// All references must outlive the scenario.
[[nodiscard]] std::unique_ptr<Scenario> make_cell_scenario(const WorldParts& parts);

}  // namespace weft::sim
