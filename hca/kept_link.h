// hca/kept_link.h -- a link of a device together with its supervisor.
#pragma once

#include <memory>

#include "base/rng.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_upkeep.h"

namespace weft::hca {

/// A link over shared memory is supervised apart from its data path, by LinkUpkeep. A ZeroMQ link makes
/// system calls on its path anyway, so its supervisor runs there.
class KeptLink {
 public:
  KeptLink(const fabric::LinkTimers& timers, bool apart, std::unique_ptr<fabric::LinkSupervisor> supervisor,
           fabric::WakeList& wakes)
      : engine_(timers), cells_(engine_) {
    // Allocates room for the largest cells: the link comes up under the device's lock, where allocation is
    // forbidden.
    cells_.expect_any_size();
    if (apart) {
      upkeep_ = std::make_unique<fabric::LinkUpkeep>(engine_, std::move(supervisor), wakes);
    } else {
      supervisor_ = std::move(supervisor);
      engine_.set_supervisor(supervisor_.get());
    }
  }

  [[nodiscard]] fabric::CellPort& cells() noexcept { return cells_; }
  [[nodiscard]] fabric::LinkEngine& engine() noexcept { return engine_; }
  /// Null when the link is supervised on its path.
  [[nodiscard]] fabric::LinkUpkeep* upkeep() noexcept { return upkeep_.get(); }
  [[nodiscard]] fabric::JoinTrouble trouble() const noexcept {
    return upkeep_ != nullptr ? upkeep_->trouble() : supervisor_->trouble();
  }

 private:
  std::unique_ptr<fabric::LinkSupervisor> supervisor_;
  fabric::LinkEngine engine_;
  std::unique_ptr<fabric::LinkUpkeep> upkeep_;
  fabric::LinkCellPort cells_;
};

}  // namespace weft::hca
