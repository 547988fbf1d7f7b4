// sim/plan/plan_extras.h -- additions of later editions to a plan. They are drawn from their own stream, so
// that plans of an earlier edition do not change.
#pragma once

#include "sim/plan/world_plan.h"

namespace weft::sim {

/// Edition 2: a second switch, frozen nodes, one-way partitions, link resets, openings under heavy loss,
/// reliable datagrams, frames up to 65,000 bytes, configuration changes of the NIC, sessions that close.
void add_extras(WorldPlan& plan);

/// Edition 3: several links are reset at one moment under much traffic, in front of a frozen switch or around
/// a frozen endnode.
void add_storms(WorldPlan& plan);

/// Edition 4: the default settings, and a node that freezes while its neighbours have much to send.
void add_defaults(WorldPlan& plan);

/// Edition 4: more verbs on raw pairs, loopback, adapters with two ports.
void add_verbs(WorldPlan& plan);

/// Reduces the traffic to at most kFlitsPerSeedMax.
void limit_size(WorldPlan& plan);

}  // namespace weft::sim
