// sim/scenario.h -- what runs on the endnodes of a simulated fabric. The world builds, polls, kills and
// rebuilds; the scenario makes the traffic and checks what came of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "sim/counter_check.h"
#include "sim/flow_ledger.h"
#include "sim/saboteur.h"
#include "sim/trace.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// What a scenario gets from its world, whose parts outlive it.
struct WorldParts {
  const WorldPlan& plan;
  FlowLedger& ledger;
  CounterCheck& counter_check;
  Trace& trace;
  RandomSource& random;
  Saboteur* saboteur = nullptr;  // null: no planted bugs
};

/// Everything one endnode process would hold; destroyed by a crash.
class EndnodeApp {
 public:
  virtual ~EndnodeApp() = default;
  virtual int poll(Instant now) noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
};

/// Owner: the world. Outlives all apps it made.
class Scenario {
 public:
  virtual ~Scenario() = default;
  /// A node comes to life. `port` outlives the app; `incarnation` counts the node's lives from 1.
  virtual std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t incarnation, fabric::CellPort& port,
                                            Instant now) = 0;
  /// The node's app is about to be destroyed, without any goodbye to its peers.
  virtual void crash(uint32_t node, Instant now) = 0;
  /// A node gets no more turns, or gets them again.
  virtual void freeze(uint32_t /*node*/, bool /*on*/, Instant /*now*/) {}
  /// A link went down or came up anew: what was in flight on it is gone. `switch_death`: because a switch is
  /// dead.
  virtual void link_change(uint32_t link, bool up, bool switch_death, Instant now) = 0;
  /// Out-of-band work between turns. `polled` has a bit for each node that had its turn since the last call:
  /// the others are as they were. Returns a bit for each node it did something to, so that they wake.
  virtual uint32_t step(uint32_t polled, Instant now) = 0;
  [[nodiscard]] virtual Instant deadline() const = 0;
  /// Invariants of the nodes that did something in their turn; a broken one goes into the ledger.
  virtual void check(uint32_t worked, Instant now) = 0;
  /// True when everything lent is back where it belongs.
  [[nodiscard]] virtual bool at_rest(Instant /*now*/) const { return true; }
  /// The node dies or the world ends: counters that no honest node moves go into the ledger.
  virtual void check_counters(uint32_t /*node*/, Instant /*now*/) {}
  /// The world is over: whatever is not at rest goes into the ledger.
  virtual void check_at_rest(Instant /*now*/) {}
  /// True when something new has passed on every flow since `since`.
  [[nodiscard]] virtual bool recovered(Instant since) const = 0;
  /// True when all planned traffic has been offered.
  [[nodiscard]] virtual bool finished() const = 0;
  /// From now on only what keeps the flows comparable is sent: a little at a time, until stop().
  virtual void trickle(Instant now) = 0;
  /// No new traffic.
  virtual void stop(Instant now) = 0;
  /// True when nothing that was promised is under way.
  [[nodiscard]] virtual bool drained() const = 0;
  /// Counters that are not zero, for people who look for a bug.
  [[nodiscard]] virtual std::string report() const { return {}; }
};

}  // namespace weft::sim
