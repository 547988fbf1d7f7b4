// sim/verbs/plan.h -- a fabric for a program of verbs, as data drawn from a seed: adapters, their ports, what
// goes wrong on the way, and how long and how rough the program is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/link/fault_config.h"
#include "sim/world_plan.h"

namespace weft::sim::verbs {

constexpr uint32_t kMillion = 1'000'000;  // of the shares in ppm

struct Plan {
  uint64_t seed = 0;
  FabricPlan fabric;                 // its endnodes are ports
  std::vector<uint32_t> adapter_of;  // by endnode - 1: ports of one adapter stand together
  uint32_t adapters = 2;
  fabric::CellFaults cell_faults;  // of cells on their way into each port
  fabric::FlitFaults flit_faults;  // of flits on each link, both ways
  Duration step_min{};             // virtual time of a busy turn
  Duration step_max{};
  uint32_t skip_ppm = 0;      // a node misses its turn
  uint32_t operations = 0;    // calls of the program
  Duration gap{};             // most time between two of them
  uint32_t wrong_ppm = 0;     // a work request is wrong on purpose
  uint32_t upheaval_ppm = 0;  // a call destroys, resets, drains or deregisters something
  uint32_t bytes_max = 0;     // of a message
  // A call upsets the fabric itself: links are cut, ports get other partitions, QPs take their alternate
  // paths, nodes end and begin.
  uint32_t cut_ppm = 0;
  uint32_t partition_ppm = 0;
  uint32_t migration_ppm = 0;
  uint32_t life_ppm = 0;
  uint32_t rename_ppm = 0;      // ports get other LIDs and GUIDs
  uint32_t crash_ppm = 0;       // switches die and come back
  uint32_t vacant = 0;          // a bit for each adapter that is not there at first
  uint32_t long_bytes_max = 0;  // of RDMA writes and reads now and then; 0: none is longer than the others

  /// Cells are lost above the links.
  [[nodiscard]] bool loses_cells() const noexcept;
  /// Whatever holds a call of the last kind.
  [[nodiscard]] bool unsteady() const noexcept {
    return (cut_ppm | partition_ppm | migration_ppm | life_ppm | rename_ppm | crash_ppm) != 0;
  }
  /// Datagrams and unacknowledged connections lose messages.
  [[nodiscard]] bool loses() const noexcept;
  [[nodiscard]] bool doubles() const noexcept;
  [[nodiscard]] bool reorders() const noexcept;
};

[[nodiscard]] Plan make_plan(uint64_t seed);
/// Two lines for people.
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace weft::sim::verbs
