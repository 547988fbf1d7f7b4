// hca/hca.h -- the host channel adapter: a host's limits, and a handler for asynchronous events if one is
// wanted. Bring-up: the host opens connections, so its QPs go from RESET to RTS in one call.
#pragma once

#include "adapter/running_adapter.h"
#include "hca/hca_limits.h"

namespace weft::hca {

/// Hears of asynchronous events, in order, on the owner's thread, from within poll().
class HcaEvents {
 public:
  virtual ~HcaEvents() = default;
  virtual void on_event(const adapter::AsyncEvent& event) noexcept = 0;
};

/// Owner: one thread.
class Hca final : public adapter::RunningAdapter {
 public:
  /// `events` may be null.
  Hca(Guid guid, RandomSource& random, HcaEvents* events = nullptr,
      const adapter::AdapterLimits& limits = hca_limits())
      : RunningAdapter("hca", {.guid = guid, .limits = limits}, random), events_(events) {}

  /// RESET to RTS.
  [[nodiscard]] adapter::ModifyResult connect(adapter::QueuePair& qp, const adapter::QpAttr& attr);

 private:
  void on_event(const adapter::AsyncEvent& event) noexcept override {
    if (events_ != nullptr) events_->on_event(event);
  }

  HcaEvents* events_;
};

}  // namespace weft::hca
