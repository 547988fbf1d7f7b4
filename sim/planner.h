// sim/planner.h -- draws a world from a seed.
#pragma once

#include <cstdint>

#include "sim/world_plan.h"

namespace weft::sim {

/// What a seed means. Edition 1 is the first form of the simulator; later ones add to the plan that is drawn.
inline constexpr uint32_t kPlanEdition = 4;

/// The same seed, profile, traffic and edition give the same plan.
[[nodiscard]] WorldPlan make_world_plan(uint64_t seed, Profile profile, Traffic traffic,
                                        uint32_t edition = kPlanEdition);

}  // namespace weft::sim
