// tca/tca.h -- the target channel adapter: a ChannelAdapter with the limits of an I/O unit. There is no
// operating system to interrupt: events are counted by kind and the serious ones logged; who wants to know
// polls. Bring-up: a unit answers connections, so a QP is made ready to receive first and to send when the
// opener has confirmed (decisions 2.14).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/pollable.h"
#include "channel/adapter.h"
#include "tca/tca_limits.h"

namespace weft {

/// Owner: one thread.
class Tca final : public Pollable {
 public:
  /// `random` and every attached port must outlive it.
  Tca(Guid guid, RandomSource& random, const AdapterLimits& limits = tca_limits());

  [[nodiscard]] ChannelAdapter& adapter() noexcept { return adapter_; }
  void attach(CellPort& port);
  /// RESET to RTR: takes messages, sends none.
  [[nodiscard]] ModifyResult accept(QueuePair& qp, const QpAttr& attr);
  /// RTR to RTS.
  [[nodiscard]] ModifyResult confirm(QueuePair& qp, const QpAttr& attr);
  [[nodiscard]] uint64_t events_seen(AsyncEventKind kind) const noexcept {
    return events_seen_[static_cast<size_t>(kind)];
  }

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  ChannelAdapter adapter_;
  std::vector<CellPort*> ports_;
  std::array<uint64_t, static_cast<size_t>(AsyncEventKind::kCount)> events_seen_{};
};

}  // namespace weft
