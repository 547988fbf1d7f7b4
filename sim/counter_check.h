// sim/counter_check.h -- what honest nodes never count. Every drop, refusal and malformed input has a counter
// of its own; in a world where all nodes keep the rules most of them stay zero whatever the fabric does, and
// more of them when nothing goes wrong. A counter that moved all the same names the rule that was broken,
// even when the other end repaired the damage.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/counters.h"
#include "sim/fault_effects.h"
#include "sim/flow_ledger.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// Owner: the world's thread.
class CounterCheck {
 public:
  /// All references must outlive this. What faults did is added to `effects`.
  CounterCheck(const WorldPlan& plan, FlowLedger& ledger, FaultEffects& effects) noexcept;

  /// A set of counters, at the end of its owner's life: what should be zero and is not goes into the ledger.
  /// Call it once in a set's life.
  template <class E>
  void check(std::string_view owner, const CounterSet<E>& counters, Instant now);

 private:
  FlowLedger& ledger_;
  FaultEffects& effects_;
  bool peaceful_;        // nothing goes wrong in this world
  bool keys_end_early_;  // nodes revoke keys that are in use
};

}  // namespace weft::sim
