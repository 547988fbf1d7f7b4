// tca/tca.h -- the target channel adapter: an adapter with the limits of an I/O unit. There is no consumer to
// interrupt, so events are only counted and logged. Bring-up: a unit answers connections, so a QP becomes
// ready to receive first, and ready to send once the active side has confirmed (decisions 2.14).
#pragma once

#include "adapter/running_adapter.h"
#include "tca/tca_limits.h"

namespace weft::tca {

/// Owner: one thread.
class Tca final : public adapter::RunningAdapter {
 public:
  Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits = tca_limits())
      : RunningAdapter("tca", {.guid = guid, .limits = limits}, random) {}

  /// RESET to RTR: takes messages, sends none.
  [[nodiscard]] adapter::ModifyResult accept(adapter::QueuePair& qp, const adapter::QpAttr& attr);
  /// RTR to RTS.
  [[nodiscard]] adapter::ModifyResult confirm(adapter::QueuePair& qp, const adapter::QpAttr& attr);

 private:
  void on_event(const adapter::AsyncEvent&) noexcept override {}
};

}  // namespace weft::tca
