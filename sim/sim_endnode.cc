#include "sim/sim_endnode.h"

namespace weft::sim {

void SimEndnode::begin_life(Scenario& scenario, uint32_t node, uint64_t life, Instant now) {
  port_ = std::make_unique<fabric::LinkCellPort>(cable_.end(0));
  faulty_port_ = std::make_unique<fabric::FaultyCellPort>(*port_, random_, faults_);
  fabric::CellPort* port = faulty_port_.get();
  if (saboteur_ != nullptr) {
    tampered_port_ = std::make_unique<TamperedPort>(*port, *saboteur_, node);
    port = tampered_port_.get();
  }
  app_ = scenario.start(node, life, *port, now);
}

void SimEndnode::end_life() noexcept {
  app_.reset();
  tampered_port_.reset();
  faulty_port_.reset();
  port_.reset();
}

void SimEndnode::set_cell_faults(const fabric::CellFaults& faults) noexcept {
  faults_ = faults;
  if (faulty_port_ != nullptr) faulty_port_->set_faults(faults);
}

bool SimEndnode::disturbed() const noexcept {
  const fabric::LinkEngine& engine = cable_.end(0);
  const bool up = engine.state() == fabric::LinkState::kUp;
  if (up != port_->up() || (up && engine.incarnation() != port_->incarnation())) return true;
  return cable_.input_waits(0);
}

}  // namespace weft::sim
