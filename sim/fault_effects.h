// sim/fault_effects.h -- effects of faults on a world, from the counters of link engines, queue pairs and
// nodes. A planned fault that never strikes shows here as zero.
#pragma once

#include <cstdint>
#include <string>

#include "adapter/counters.h"
#include "base/counters.h"
#include "fabric/link/link_counters.h"

namespace weft::sim {

enum class WorldFault : uint8_t { kFlits, kCells, kCut, kCrash, kFreeze };

struct FaultEffects {
  // Link engines.
  uint64_t flits_damaged = 0;
  uint64_t flits_behind_gap = 0;  // a flit before them was lost or came late
  uint64_t flits_repeated = 0;    // arrived twice
  // Queue pairs.
  uint64_t cells_missed = 0;  // gaps, and packets that were given up
  uint64_t cells_twice = 0;
  uint64_t cells_out_of_turn = 0;  // kept until the missing cell came
  // Nodes and links.
  uint64_t nodes_died = 0;
  uint64_t nodes_returned = 0;
  uint64_t links_cut = 0;     // went down while both of their nodes lived
  uint64_t turns_missed = 0;  // turns that frozen nodes would have needed

  FaultEffects& operator+=(const FaultEffects& other) noexcept;
  /// Adds counters at the end of their owner's life. Sets without counters of faults change nothing.
  void add(const CounterSet<fabric::LinkCounter>& counters) noexcept;
  void add(const CounterSet<adapter::QpCounter>& counters) noexcept;
  template <class E>
  void add(const CounterSet<E>& /*counters*/) noexcept {}
};

/// Number of seeds from which fresh seeds are judged. Fewer seeds may by chance have too few faults of a
/// kind.
constexpr uint64_t kFloorSeedsMin = 100;
/// Names each effect that occurred less often than `seeds` seeds of profile `mixed`, or of a profile with
/// more faults, must have it. Empty when there is none.
[[nodiscard]] std::string too_few_faults(const FaultEffects& effects, uint64_t seeds);
/// Every effect with its number, as text.
[[nodiscard]] std::string describe(const FaultEffects& effects);

}  // namespace weft::sim
