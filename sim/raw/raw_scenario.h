// sim/raw/raw_scenario.h -- queue pairs of all services directly on the adapters, without sessions and
// drivers.
#pragma once

#include <memory>

#include "base/rng.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"
#include "sim/scenario.h"

namespace weft::sim {

/// All references must outlive the scenario.
[[nodiscard]] std::unique_ptr<Scenario> make_raw_scenario(const WorldParts& parts);

}  // namespace weft::sim
