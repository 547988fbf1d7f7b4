// tests/support/adapter_star.h -- channel adapters around a switch, over links of any kind. Cells may be lost
// above the links, where only the transport notices.
#pragma once

#include "fabric/link/faulty_cell_port.h"
#include "tests/support/adapter_sides.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

class AdapterStar final : public AdapterSides {
 public:
  explicit AdapterStar(const TestFabricConfig& config) : fabric(config) {
    for (uint32_t i = 0; i < config.nodes; ++i) {
      ports_.push_back(std::make_unique<fabric::FaultyCellPort>(fabric.lend(i), fabric.random));
      add_side(*ports_[i]);
    }
    run(2);
  }
  ~AdapterStar() override { remove_sides(); }
  /// Faults of the cells that arrive at side `index`.
  void set_cell_faults(int index, const fabric::CellFaults& faults) {
    ports_[static_cast<size_t>(index)]->set_faults(faults);
  }
  [[nodiscard]] const fabric::FaultCounts& cell_fault_counts(int index) const {
    return ports_[static_cast<size_t>(index)]->counts();
  }

  TestFabric fabric;

 private:
  [[nodiscard]] Instant now() const override { return fabric.clock.now(); }
  void pass(Duration step) override { fabric.step(step); }

  std::vector<std::unique_ptr<fabric::FaultyCellPort>> ports_;
};

}  // namespace weft::test
