// sim/cell_scenario.h -- cells between link endpoints without queue pairs: what the links and the switch
// promise by themselves, namely order and nothing lost while every link on the way stays up.
#pragma once

#include <memory>

#include "base/rng.h"
#include "sim/flow_ledger.h"
#include "sim/scenario.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// All references must outlive the scenario.
[[nodiscard]] std::unique_ptr<Scenario> make_cell_scenario(const WorldParts& parts);

}  // namespace weft::sim
