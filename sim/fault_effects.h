// sim/fault_effects.h -- what faults did to a world, as those counted it who suffered them: link engines,
// queue pairs, nodes. A fault that is planned and never strikes shows here as zero.
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
  uint64_t flits_behind_gap = 0;  // one before them was lost, or came late
  uint64_t flits_repeated = 0;    // came twice
  // Queue pairs.
  uint64_t cells_missed = 0;  // gaps, and packets lost for good
  uint64_t cells_twice = 0;
  uint64_t cells_out_of_turn = 0;  // kept until the one before came
  // Nodes and links.
  uint64_t nodes_died = 0;
  uint64_t nodes_returned = 0;
  uint64_t links_cut = 0;     // went down while both of their nodes lived
  uint64_t turns_missed = 0;  // of frozen nodes that had something to do

  FaultEffects& operator+=(const FaultEffects& other) noexcept;
  /// Counters at the end of their owner's life; sets that tell nothing of faults change nothing.
  void add(const CounterSet<fabric::LinkCounter>& counters) noexcept;
  void add(const CounterSet<adapter::QpCounter>& counters) noexcept;
  template <class E>
  void add(const CounterSet<E>& /*counters*/) noexcept {}
};

/// Fresh seeds are judged from this many on: by chance, fewer may have too little of one kind of fault.
constexpr uint64_t kFloorSeedsMin = 100;
/// Names each effect that `seeds` seeds of profile `mixed`, or of one with more faults, must have had more
/// often; empty when all is well.
[[nodiscard]] std::string too_few_faults(const FaultEffects& effects, uint64_t seeds);
/// Every effect with its number, for people.
[[nodiscard]] std::string describe(const FaultEffects& effects);

}  // namespace weft::sim
