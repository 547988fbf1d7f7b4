// sim/scenario.h -- the programs on the endnodes of a simulated fabric. The world starts, polls, kills and
// restarts them; the scenario makes the traffic and checks the results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "sim/counter_check.h"
#include "sim/frames/flow_ledger.h"
#include "sim/plan/world_plan.h"
#include "sim/saboteur.h"
#include "sim/trace.h"

namespace weft::sim {

/// Parts of the world for a scenario; they outlive it.
struct WorldParts {
  const WorldPlan& plan;
  FlowLedger& ledger;
  CounterCheck& counter_check;
  Trace& trace;
  RandomSource& random;
  Saboteur* saboteur = nullptr;  // null: no bugs are planted
};

/// Everything that the process of an endnode would hold; destroyed by a crash.
class EndnodeApp {
 public:
  virtual ~EndnodeApp() = default;
  virtual int poll(Instant now) noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
};

/// Owner: the world. Outlives all apps that it made.
class Scenario {
 public:
  virtual ~Scenario() = default;
  /// A node starts. `port` outlives the app; `incarnation` counts the node's lives from 1.
  virtual std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t incarnation, fabric::CellPort& port,
                                            Instant now) = 0;
  /// The node's app is about to be destroyed without a message to its peers.
  virtual void crash(uint32_t node, Instant now) = 0;
  /// A node gets no more turns (`on`), or gets them again.
  virtual void freeze(uint32_t /*node*/, bool /*on*/, Instant /*now*/) {}
  /// A link went down or came up again; everything in flight on it is lost. `switch_death`: the reason is a
  /// dead switch.
  virtual void link_change(uint32_t link, bool up, bool switch_death, Instant now) = 0;
  /// Out-of-band work between turns. `polled` has a bit for each node that had a turn since the last call;
  /// other nodes are unchanged. @return a bit for each node that was changed, so that it wakes
  virtual uint32_t step(uint32_t polled, Instant now) = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  /// Checks the invariants of nodes that worked in their turn; violations go into the ledger.
  virtual void check(uint32_t worked, Instant now) = 0;
  /// True when everything that was lent has been returned.
  [[nodiscard]] virtual bool at_rest(Instant /*now*/) const { return true; }
  /// The node dies or the world ends: counters that honest nodes never move go into the ledger.
  virtual void check_counters(uint32_t /*node*/, Instant /*now*/) {}
  /// The world is over: everything that is not at rest goes into the ledger.
  virtual void check_at_rest(Instant /*now*/) {}
  /// True when a message sent after `since` has arrived on every flow.
  [[nodiscard]] virtual bool recovered(Instant since) const = 0;
  /// True when all planned traffic has been offered.
  [[nodiscard]] virtual bool finished() const = 0;
  /// From now on flows only trickle, until stop().
  virtual void trickle(Instant now) = 0;
  /// No new traffic from now on.
  virtual void stop(Instant now) = 0;
  /// True when no promised message is under way.
  [[nodiscard]] virtual bool drained() const = 0;
  /// Nonzero counters as text, for debugging.
  [[nodiscard]] virtual std::string report() const { return {}; }
};

}  // namespace weft::sim
