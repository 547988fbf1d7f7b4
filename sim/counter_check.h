// sim/counter_check.h -- checks counters that honest nodes never move. Every drop, refusal and malformed
// input has its own counter. If all nodes keep the rules, most of these counters stay zero under any fault,
// and further ones stay zero without faults. A counter that moved names the broken rule, even if the other
// end repaired the damage.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/counters.h"
#include "sim/fault_effects.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"

namespace weft::sim {

/// Owner: the world's thread.
class CounterCheck {
 public:
  /// All references must outlive this. Effects of faults are added to `effects`.
  CounterCheck(const WorldPlan& plan, FlowLedger& ledger, FaultEffects& effects) noexcept;

  /// Checks a set of counters at the end of its owner's life; counters that should be zero and are not become
  /// violations in the ledger. Call once per life of a set.
  template <class E>
  void check(std::string_view owner, const CounterSet<E>& counters, Instant now);

 private:
  FlowLedger& ledger_;
  FaultEffects& effects_;
  bool peaceful_;        // the world has no faults
  bool keys_end_early_;  // nodes revoke keys that are in use
};

}  // namespace weft::sim
