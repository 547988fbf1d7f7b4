// base/net/driver_half.h -- the interface between an endnode's loop and a driver half (HostNetdev or
// IouNetdev).
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"

namespace weft {

/// Owner: the thread that polls the adapter, before each poll() of the half.
class DriverHalf {
 public:
  virtual ~DriverHalf() = default;
  /// One bounded turn. Returns work done.
  virtual int poll(Instant now) noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
  /// Adds the descriptors whose readiness means work; adds none while the half could not take that work.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
};

}  // namespace weft
