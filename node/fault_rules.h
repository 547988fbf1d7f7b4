// node/fault_rules.h -- what `weft fault` asks of a switch, as rules of its core and back.
#pragma once

#include <vector>

#include "base/clock.h"
#include "control/management.h"
#include "fabric/switch/live_faults.h"

namespace weft::node {

/// Fails on a word that is none, a time that does not fit, or a port beyond `ports`.
Result<fabric::FaultRule> fault_rule(const control::FaultWish& wish, uint32_t ports);
[[nodiscard]] std::vector<control::FaultInfo> describe_faults(const fabric::LiveFaults& faults, Instant now);

}  // namespace weft::node
