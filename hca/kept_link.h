// hca/kept_link.h -- a link of a device with what keeps it up.
#pragma once

#include <memory>

#include "base/rng.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_upkeep.h"

namespace weft::hca {

/// Over shared memory the link is supervised apart from its path. ZeroMQ makes system calls on its path
/// anyhow, so its links are supervised there.
class KeptLink {
 public:
  KeptLink(const fabric::LinkTimers& timers, bool apart, std::unique_ptr<fabric::LinkSupervisor> supervisor,
           fabric::WakeList& wakes)
      : engine_(timers), cells_(engine_) {
    cells_.expect_any_size();  // it comes up under the device's lock
    if (apart) {
      upkeep_ = std::make_unique<fabric::LinkUpkeep>(engine_, std::move(supervisor), wakes);
    } else {
      supervisor_ = std::move(supervisor);
      engine_.set_supervisor(supervisor_.get());
    }
  }

  [[nodiscard]] fabric::CellPort& cells() noexcept { return cells_; }
  [[nodiscard]] fabric::LinkEngine& engine() noexcept { return engine_; }
  /// Null when the path supervises itself.
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
