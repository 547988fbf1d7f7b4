// sim/sim_port.h -- the port of an endnode of a simulated world: its end of the link, faults above the link,
// and perhaps a saboteur.
#pragma once

#include <optional>

#include "fabric/link/faulty_cell_port.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/memory_link.h"
#include "sim/tampered_port.h"

namespace weft::sim {

/// Owner: its endnode.
class SimPort {
 public:
  /// Uses end 0 of `cable`. All references must outlive the port, and so must `saboteur` unless it is null.
  SimPort(fabric::MemoryCable& cable, RandomSource& random, const fabric::CellFaults& faults,
          Saboteur* saboteur, uint32_t node)
      : cable_(cable), port_(cable.end(0)), faulty_(port_, random, faults) {
    if (saboteur != nullptr) tampered_.emplace(faulty_, *saboteur, node);
  }
  SimPort(const SimPort&) = delete;
  SimPort& operator=(const SimPort&) = delete;

  /// What the node uses.
  [[nodiscard]] fabric::CellPort& cells() noexcept {
    if (tampered_.has_value()) return *tampered_;
    return faulty_;
  }
  void set_faults(const fabric::CellFaults& faults) noexcept { faulty_.set_faults(faults); }
  [[nodiscard]] const fabric::FaultCounts& fault_counts() const noexcept { return faulty_.counts(); }
  [[nodiscard]] const CounterSet<fabric::CellPortCounter>& counters() const noexcept {
    return port_.counters();
  }
  /// True when flits wait for the node, or its link has come up or gone down.
  [[nodiscard]] bool disturbed() const noexcept {
    const fabric::LinkEngine& engine = cable_.end(0);
    const bool up = engine.state() == fabric::LinkState::kUp;
    return up != port_.up() || (up && engine.incarnation() != port_.incarnation()) || cable_.input_waits(0);
  }

 private:
  fabric::MemoryCable& cable_;
  fabric::LinkCellPort port_;
  fabric::FaultyCellPort faulty_;
  std::optional<TamperedPort> tampered_;
};

}  // namespace weft::sim
