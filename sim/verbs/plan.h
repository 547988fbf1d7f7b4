// sim/verbs/plan.h -- a fabric and a program of verbs as data drawn from a seed: adapters, ports, faults, and
// the length and wildness of the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabric/link/fault_config.h"
#include "fabric/window/memory_device.h"
#include "sim/plan/world_plan.h"

namespace weft::sim::verbs {

constexpr uint32_t kMillion = 1'000'000;  // of the shares in ppm

struct Plan {
  uint64_t seed = 0;
  FabricPlan fabric;                 // its endnodes are ports
  std::vector<uint32_t> adapter_of;  // by endnode - 1; the ports of an adapter are adjacent
  uint32_t adapters = 2;
  fabric::CellFaults cell_faults;  // for cells on their way into each port
  fabric::FlitFaults flit_faults;  // for flits on each link, both ways
  Duration step_min{};             // virtual time of a turn with work
  Duration step_max{};
  uint32_t skip_ppm = 0;      // probability that a node misses its turn
  uint32_t operations = 0;    // number of calls of the program
  Duration gap{};             // longest time between two calls
  uint32_t wrong_ppm = 0;     // probability that a work request is wrong on purpose
  uint32_t upheaval_ppm = 0;  // probability that a call destroys, resets, drains or deregisters something
  uint32_t bytes_max = 0;     // longest message
  // Probabilities that a call disturbs the fabric itself: cuts links, changes partitions, migrates QPs,
  // starts and ends nodes.
  uint32_t cut_ppm = 0;
  uint32_t partition_ppm = 0;
  uint32_t migration_ppm = 0;
  uint32_t life_ppm = 0;
  uint32_t rename_ppm = 0;        // gives ports other LIDs and GUIDs
  uint32_t crash_ppm = 0;         // kills switches, which come back
  uint32_t vacant = 0;            // a bit for each adapter that is absent at first
  uint32_t direct = 0;            // a bit for each adapter whose process shares a machine with the others
  fabric::DmaFaults dma_faults;   // of the windows between them
  bool window_datagrams = false;  // their slots hold cells, so that UD takes them, too
  bool finds_ways = false;        // RC QPs of adapters with two ports leave a dead one by themselves
  uint32_t long_bytes_max = 0;    // longest of the occasional long RDMA writes and reads; 0: there are none

  /// True if cells are lost above the links.
  [[nodiscard]] bool loses_cells() const noexcept;
  /// True if the program disturbs the fabric.
  [[nodiscard]] bool unsteady() const noexcept {
    return (cut_ppm | partition_ppm | migration_ppm | life_ppm | rename_ppm | crash_ppm) != 0;
  }
  /// True if datagrams and unacknowledged connections lose messages.
  [[nodiscard]] bool loses() const noexcept;
  [[nodiscard]] bool doubles() const noexcept;
  [[nodiscard]] bool reorders() const noexcept;
  /// The same of datagrams, which change their way when a window comes up or ends.
  [[nodiscard]] bool reorders_datagrams() const noexcept { return reorders() || window_datagrams; }
};

[[nodiscard]] Plan make_plan(uint64_t seed);
/// Two lines of text.
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace weft::sim::verbs
