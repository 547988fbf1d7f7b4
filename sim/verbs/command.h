// sim/verbs/command.h -- weft-sim --traffic verbs: many seeds of random verbs, what they tried, and what
// failed.
#pragma once

#include <cstdint>
#include <string>

#include "sim/verbs/model.h"
#include "sim/verbs/plan.h"
#include "sim/verbs/world.h"

namespace weft::sim::verbs {

struct CommandOptions {
  uint64_t from = 0;
  uint64_t seeds = 1;
  bool verbose = false;  // print the plan, and of one that fails the program around the failing request
  bool cells = false;    // print every cell on a link
  bool plan_only = false;
  bool keep_going = false;  // do not stop at the tenth failure
  bool each = false;        // one line per seed
  bool shrink = false;      // of a seed that fails: leave out the calls that are not needed
};

/// As run(), and a turn slower than kTurnMost is a violation: the seed is run up to twice more, because page
/// faults and interrupts count as CPU time, and a turn that is slow by itself is slow each time.
[[nodiscard]] Outcome run_timed(const Plan& plan);

/// Exit code of the program.
[[nodiscard]] int run_command(const CommandOptions& options);

/// Seeds from which on the floors below are asked for.
inline constexpr uint64_t kTallySeedsMin = 100;
/// The events that happened too rarely in `seeds` seeds, as text; empty when there are none.
[[nodiscard]] std::string too_few(const Tally& tally, uint64_t seeds);

}  // namespace weft::sim::verbs
