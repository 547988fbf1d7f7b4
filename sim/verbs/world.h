// sim/verbs/world.h -- one seed of random verbs: adapters around a production switch over links that lose,
// double, swap and damage, a program on them, and the model that judges what comes back.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "sim/saboteur.h"
#include "sim/verbs/model.h"
#include "sim/verbs/plan.h"

namespace weft::sim::verbs {

struct Outcome {
  bool ok = false;
  std::vector<std::string> violations;
  std::vector<std::string> around;  // the program before the failing request, and itself
  uint64_t hash = 0;                // of every completion and event, with its time
  uint64_t turns = 0;
  uint64_t calls = 0;
  Instant ended{};          // virtual
  Duration slowest_turn{};  // CPU time of one poll of an adapter
  Tally tally;
};

struct RunOptions {
  const std::set<uint64_t>* leave_out = nullptr;  // calls that are not made
  Saboteur* saboteur = nullptr;                   // must outlive the run
  bool cells = false;                             // prints every cell
  bool tells = false;                             // fills Outcome::around
};

[[nodiscard]] Outcome run(const Plan& plan, const RunOptions& options = {});
/// Leaves calls out as long as the seed still fails; the fewer are left, the easier it is to understand.
[[nodiscard]] std::set<uint64_t> shrink(const Plan& plan);

}  // namespace weft::sim::verbs
