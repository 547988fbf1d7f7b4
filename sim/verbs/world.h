// sim/verbs/world.h -- one seed of random verbs: adapters around a production switch over links that lose,
// duplicate, reorder and damage cells; a program on them; and the model that judges the results.
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
  std::vector<std::string> around;  // the program around the failing request
  uint64_t hash = 0;                // hash of every completion and event with its time
  uint64_t turns = 0;
  uint64_t calls = 0;
  Instant ended{};          // virtual time
  Duration slowest_turn{};  // CPU time of one poll of an adapter
  Tally tally;
};

struct RunOptions {
  const std::set<uint64_t>* leave_out = nullptr;  // numbers of calls that are left out
  Saboteur* saboteur = nullptr;                   // must outlive the run
  bool cells = false;                             // print every cell
  bool tells = false;                             // fill Outcome::around
};

[[nodiscard]] Outcome run(const Plan& plan, const RunOptions& options = {});
/// Finds calls that can be left out while the seed still fails, to make the failure easier to understand.
[[nodiscard]] std::set<uint64_t> shrink(const Plan& plan);

}  // namespace weft::sim::verbs
