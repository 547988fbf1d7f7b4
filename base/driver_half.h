// base/driver_half.h -- what an endnode's loop needs of a driver half, whichever side it is.
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
  /// Adds the descriptors whose readiness means work; none while that work could not be taken anyway.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
};

}  // namespace weft
