// tca/tca.h -- the target channel adapter: a ChannelAdapter with the limits of an I/O unit. There is no
// operating system to interrupt: events are counted by kind and the serious ones logged; who wants to know
// polls. Bring-up: a unit answers connections, so a QP is made ready to receive first and to send when the
// opener has confirmed (decisions 2.14).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "adapter/adapter.h"
#include "base/pollable.h"
#include "tca/tca_limits.h"

namespace weft::tca {

/// Owner: one thread.
class Tca final : public Pollable {
 public:
  /// `random` and every attached port must outlive it.
  Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits = tca_limits());

  [[nodiscard]] adapter::ChannelAdapter& adapter() noexcept { return adapter_; }
  void attach(fabric::CellPort& port);
  /// RESET to RTR: takes messages, sends none.
  [[nodiscard]] adapter::ModifyResult accept(adapter::QueuePair& qp, const adapter::QpAttr& attr);
  /// RTR to RTS.
  [[nodiscard]] adapter::ModifyResult confirm(adapter::QueuePair& qp, const adapter::QpAttr& attr);
  [[nodiscard]] uint64_t events_seen(adapter::AsyncEventKind kind) const noexcept {
    return events_seen_[static_cast<size_t>(kind)];
  }

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  adapter::ChannelAdapter adapter_;
  std::vector<fabric::CellPort*> ports_;
  std::array<uint64_t, static_cast<size_t>(adapter::AsyncEventKind::kCount)> events_seen_{};
};

}  // namespace weft::tca
