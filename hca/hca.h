// hca/hca.h -- the host channel adapter: a host's limits and an optional handler for asynchronous events. A
// host opens connections, so connect() takes its QPs from RESET to RTS in one call.
#pragma once

#include "adapter/running_adapter.h"
#include "hca/hca_limits.h"

namespace weft::hca {

/// Receives asynchronous events in order, on the owner's thread, from within poll().
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

  /// Takes the QP from RESET to RTS.
  [[nodiscard]] adapter::ModifyResult connect(adapter::QueuePair& qp, const adapter::QpAttr& attr);

 private:
  void on_event(const adapter::AsyncEvent& event) noexcept override {
    if (events_ != nullptr) events_->on_event(event);
  }

  HcaEvents* events_;
};

}  // namespace weft::hca
