#include "sim/fault_effects.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace weft::sim {
namespace {

struct Floor {
  uint64_t FaultEffects::*effect;
  std::string_view name;
  uint64_t per_300_seeds;  // about a third of the average
};
constexpr std::array kFloors{
    Floor{&FaultEffects::flits_damaged, "flits damaged", 150},
    Floor{&FaultEffects::flits_behind_gap, "flits behind a gap", 300},
    Floor{&FaultEffects::flits_repeated, "flits twice", 40},
    Floor{&FaultEffects::cells_missed, "cells missed", 700},
    Floor{&FaultEffects::cells_twice, "cells twice", 900},
    Floor{&FaultEffects::cells_out_of_turn, "cells out of turn", 500},
    Floor{&FaultEffects::nodes_died, "nodes died", 65},
    Floor{&FaultEffects::nodes_returned, "nodes returned", 65},
    Floor{&FaultEffects::links_cut, "links cut", 190},
    Floor{&FaultEffects::turns_missed, "turns missed by frozen nodes", 4000},
};
static_assert(kFloors.size() * sizeof(uint64_t) == sizeof(FaultEffects), "each effect has its floor");

constexpr uint64_t kFloorSeeds = 300;

}  // namespace

FaultEffects& FaultEffects::operator+=(const FaultEffects& other) noexcept {
  for (const Floor& floor : kFloors) this->*floor.effect += other.*floor.effect;
  return *this;
}

void FaultEffects::add(const CounterSet<fabric::LinkCounter>& counters) noexcept {
  using LinkCounter = fabric::LinkCounter;
  flits_damaged += counters.get(LinkCounter::kBadCrc) + counters.get(LinkCounter::kBadLength);
  flits_behind_gap += counters.get(LinkCounter::kOutOfSequence);
  flits_repeated += counters.get(LinkCounter::kDuplicates);
}

void FaultEffects::add(const CounterSet<adapter::QpCounter>& counters) noexcept {
  using Qp = adapter::QpCounter;
  cells_missed += counters.get(Qp::kGapsSeen) + counters.get(Qp::kMissedPackets);
  cells_twice += counters.get(Qp::kDuplicateCells);
  cells_out_of_turn += counters.get(Qp::kCellsStashed);
}

std::string too_few_faults(const FaultEffects& effects, uint64_t seeds) {
  std::string few;
  for (const Floor& floor : kFloors) {
    const uint64_t least = std::max<uint64_t>(1, floor.per_300_seeds * seeds / kFloorSeeds);
    if (effects.*floor.effect >= least) continue;
    few += fmt::format("{}{} {} instead of {} or more", few.empty() ? "" : "; ", floor.name,
                       effects.*floor.effect, least);
  }
  return few;
}

std::string describe(const FaultEffects& effects) {
  std::string out;
  for (const Floor& floor : kFloors)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", floor.name, effects.*floor.effect);
  return out;
}

}  // namespace weft::sim
