// sim/plan/planner.h -- draws the plan of a world from a seed.
#pragma once

#include <cstdint>

#include "sim/plan/world_plan.h"

namespace weft::sim {

/// The meaning of a seed. Edition 1 is the first; later editions add to its plans.
inline constexpr uint32_t kPlanEdition = 4;

/// The same seed, profile, traffic and edition give the same plan.
[[nodiscard]] WorldPlan make_world_plan(uint64_t seed, Profile profile, Traffic traffic,
                                        uint32_t edition = kPlanEdition);

}  // namespace weft::sim
