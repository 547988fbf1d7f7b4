// sim/plan_extras.h -- what later editions of the plan add to a drawn one. A stream of its own: the plans of
// seeds that name an earlier edition stay what they were.
#pragma once

#include "sim/world_plan.h"

namespace weft::sim {

/// Edition 2: a second switch, frozen nodes, one-way partitions, link resets, openings under heavy loss,
/// reliable datagrams, frames up to 65,000 bytes, changes of the NIC's configuration, sessions that close.
void add_extras(WorldPlan& plan);

/// Edition 3: several links reset at one moment while there is much traffic, before a switch that is frozen
/// or around an endnode that is.
void add_storms(WorldPlan& plan);

/// Edition 4: the settings that are shipped, and a node that freezes while its neighbours have much to send.
void add_defaults(WorldPlan& plan);

/// Edition 4: more of the verbs on raw pairs, loopback, adapters with two ports.
void add_verbs(WorldPlan& plan);

/// Scales the traffic down to kFlitsPerSeedMax.
void limit_size(WorldPlan& plan);

}  // namespace weft::sim
