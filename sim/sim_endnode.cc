#include "sim/sim_endnode.h"

namespace weft::sim {

void SimEndnode::begin_life(Scenario& scenario, uint32_t node, uint64_t life, Instant now) {
  port_ = std::make_unique<SimPort>(cable_, random_, faults_, saboteur_, node);
  app_ = scenario.start(node, life, port_->cells(), now);
}

void SimEndnode::end_life() noexcept {
  app_.reset();
  port_.reset();
}

void SimEndnode::set_cell_faults(const fabric::CellFaults& faults) noexcept {
  faults_ = faults;
  if (port_ != nullptr) port_->set_faults(faults);
}

}  // namespace weft::sim
