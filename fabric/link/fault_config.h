// fabric/link/fault_config.h -- faults on demand, below the link engine (flits) and above it (cells). Rates
// are in parts per million and drawn from the injected RandomSource, so that a seed replays a run.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace weft::fabric {

/// Rates are applied to each unit in this order; the first fault that strikes decides. All zero: no faults.
struct FaultRates {
  uint32_t drop_ppm = 0;
  uint32_t corrupt_ppm = 0;    // one bit flips, anywhere in the unit
  uint32_t duplicate_ppm = 0;  // arrives twice in a row
  uint32_t reorder_ppm = 0;    // arrives after the next unit
  uint32_t delay_ppm = 0;      // arrives delay_min..delay_max later; units behind it may overtake
  Duration delay_min{};
  Duration delay_max{};
  bool cut = false;  // nothing arrives
};
/// Below the link engine: loses, damages and doubles flits. The engine repairs these faults.
using FlitFaults = FaultRates;
/// Above the link engine: loses cells. Only end-to-end acknowledgement repairs these faults. The CRC would
/// catch a corrupted cell, so corruption drops the cell.
using CellFaults = FaultRates;

/// Number of units by what happened to them.
struct FaultCounts {
  uint64_t passed = 0;
  uint64_t dropped = 0;
  uint64_t corrupted = 0;
  uint64_t duplicated = 0;
  uint64_t reordered = 0;
  uint64_t delayed = 0;
};

}  // namespace weft::fabric
