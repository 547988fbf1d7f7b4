// sim/sim_endnode.h -- one endnode of a simulated world: its port, faults above the link, and the scenario's
// app. It can die and start again.
#pragma once

#include <cstdint>
#include <memory>

#include "sim/scenario.h"
#include "sim/sim_port.h"
#include "sim/turns.h"

namespace weft::sim {

/// Owner: the world's turns.
class SimEndnode final : public SimNode {
 public:
  /// The node uses end 0 of `cable`. Both references must outlive the node, and so must `saboteur` unless it
  /// is null.
  SimEndnode(fabric::MemoryCable& cable, RandomSource& faults, Saboteur* saboteur)
      : cable_(cable), random_(faults), saboteur_(saboteur) {}

  /// `life` counts from 1.
  void begin_life(Scenario& scenario, uint32_t node, uint64_t life, Instant now);
  void end_life() noexcept;
  /// The faults stay in force when the node dies.
  void set_cell_faults(const fabric::CellFaults& faults) noexcept;

  [[nodiscard]] bool alive() const noexcept override { return app_ != nullptr; }
  int poll(Instant now) noexcept override { return app_->poll(now); }
  [[nodiscard]] Instant deadline() const noexcept override { return app_->deadline(); }
  [[nodiscard]] bool disturbed() const noexcept override { return port_->disturbed(); }
  /// Counters of the port; only while the node lives.
  [[nodiscard]] const CounterSet<fabric::CellPortCounter>& counters() const noexcept {
    return port_->counters();
  }

 private:
  fabric::MemoryCable& cable_;
  RandomSource& random_;
  Saboteur* saboteur_;
  fabric::CellFaults faults_;
  std::unique_ptr<SimPort> port_;
  std::unique_ptr<EndnodeApp> app_;
};

}  // namespace weft::sim
