// sim/verbs/command.h -- weft-sim --traffic verbs: runs many seeds of random verbs and reports what they
// tried and what failed.
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
  bool verbose = false;  // print the plan, and for a failed seed the program around the failing request
  bool cells = false;    // print every cell on a link
  bool plan_only = false;
  bool keep_going = false;  // do not stop after ten failures
  bool each = false;        // one line per seed
  bool shrink = false;      // for a failed seed: leave out calls that are not needed for the failure
  bool json = false;        // the summary as one JSON object
};

/// Like run(), but a turn slower than kTurnMost is a violation. Then the seed is run up to twice more,
/// because page faults and interrupts count as CPU time; a turn that is slow by itself is slow in every run.
[[nodiscard]] Outcome run_timed(const Plan& plan);

/// Runs the command. @return the exit code of the program
[[nodiscard]] int run_command(const CommandOptions& options);

/// Number of seeds from which the minimum numbers of events are required.
inline constexpr uint64_t kTallySeedsMin = 100;
/// Events that happened too rarely in `seeds` seeds, as text; empty when there are none.
[[nodiscard]] std::string too_few(const Tally& tally, uint64_t seeds);

}  // namespace weft::sim::verbs
