// hca/hca.h -- the host channel adapter: a ChannelAdapter with a host's limits, whose asynchronous events go
// to the log and, if wanted, to a handler. Bring-up: the host opens connections, so its QPs go from RESET to
// RTS in one call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/adapter.h"
#include "base/pollable.h"
#include "hca/hca_limits.h"

namespace weft::hca {

/// Hears of asynchronous events, in order, on the owner's thread, from within poll().
class HcaEvents {
 public:
  virtual ~HcaEvents() = default;
  virtual void on_event(const adapter::AsyncEvent& event) noexcept = 0;
};

/// Owner: one thread.
class Hca final : public Pollable {
 public:
  /// `random` and every attached port must outlive it. `events` may be null.
  Hca(Guid guid, RandomSource& random, HcaEvents* events = nullptr,
      const adapter::AdapterLimits& limits = hca_limits());

  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_; }
  void attach(fabric::CellPort& port);
  /// RESET to RTS.
  [[nodiscard]] adapter::ModifyResult connect(adapter::QueuePair& qp, const adapter::QpAttr& attr);

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  adapter::ChannelAdapter adapter_;
  HcaEvents* events_;
  std::vector<fabric::CellPort*> ports_;
};

}  // namespace weft::hca
