// hca/device_ports.h -- the ports of a device, and the supervision of the links that the device keeps up
// itself. Internal to hca/. docs/consumer.md.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "fabric/carrier/link_connect.h"
#include "fabric/link/wake_list.h"
#include "hca/device_config.h"
#include "hca/kept_link.h"

namespace weft::hca {

/// Calls that say so: under the device's lock. The other calls: one thread at a time. Links are supervised in
/// three steps: look() without the lock, settle() under it, clear() without it.
class DevicePorts {
 public:
  /// `wakes` and `random` must outlive this. `random` is drawn from in add_link() and look().
  DevicePorts(fabric::WakeList& wakes, RandomSource& random) : wakes_(wakes), random_(random) {}

  // ---- before the first context is opened --------------------
  /// Adds a link. Its port is still to be attached to the adapter.
  [[nodiscard]] Result<fabric::CellPort*> add_link(const fabric::LinkEndpointConfig& config);
  /// Adds a port that its owner keeps up.
  void add(fabric::CellPort& port);

  [[nodiscard]] uint32_t count() const noexcept { return static_cast<uint32_t>(ports_.size()); }

  // ---- under the lock --------------------
  /// Prepares all ports for sleeping. True when nothing waits at any of them.
  [[nodiscard]] bool prepare_sleep() noexcept;
  void finish_sleep() noexcept;
  /// A link has failed and waits for supervision.
  [[nodiscard]] bool has_faulty() const noexcept;
  /// A link holds cells that would be lost with the process.
  [[nodiscard]] bool loses_at_end() const noexcept;
  /// Second step: links come up or are taken out. True when there were any; the adapter then needs a turn.
  [[nodiscard]] bool settle(Instant now) noexcept;
  /// Why a port is not up; of several, the first.
  [[nodiscard]] MissingPort missing() const;
  /// The descriptors by which ports that are polled on the path tell of arrivals, once they are prepared for
  /// sleeping. Needs room for path_fds_max() more.
  void path_fds(std::vector<pollfd>& out) const;
  [[nodiscard]] size_t path_fds_max() const noexcept;

  // ---- without the lock --------------------
  /// First step: joins the switch and watches peers.
  void look(Instant now) noexcept;
  /// Last step: frees what was taken out.
  void clear() noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  /// Descriptors that the supervision waits for.
  void supervision_fds(std::vector<pollfd>& out) const;

 private:
  fabric::WakeList& wakes_;
  RandomSource& random_;
  std::vector<std::unique_ptr<KeptLink>> links_;
  std::vector<fabric::CellPort*> ports_;
  std::vector<fabric::CellPort*> path_ports_;  // those without LinkUpkeep
};

}  // namespace weft::hca
