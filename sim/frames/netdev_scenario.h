// sim/frames/netdev_scenario.h -- the whole path: hosts and I/O units with sessions and both driver halves;
// frames between the hosts' OS side and the units' LAN side.
#pragma once

#include <memory>

#include "base/rng.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"
#include "sim/scenario.h"

namespace weft::sim {

/// All references must outlive the scenario.
[[nodiscard]] std::unique_ptr<Scenario> make_netdev_scenario(const WorldParts& parts);

}  // namespace weft::sim
