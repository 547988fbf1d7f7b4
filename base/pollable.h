// base/pollable.h -- the interface of a core that a loop runner drives: bounded poll(now), and the steps
// before and after a sleep.
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"

namespace weft {

/// The steps before and after a loop's sleep. Owner: the loop's thread.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Adds the descriptors whose readiness ends a sleep.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// Tells peers that a wake-up is needed from now on, then checks for work once more: false if there is
  /// some.
  [[nodiscard]] virtual bool prepare_sleep() noexcept = 0;
  /// Undoes prepare_sleep().
  virtual void finish_sleep() noexcept = 0;
  /// Latest time of the next poll().
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
};

/// Owner: the loop's thread.
class Pollable : public Sleeper {
 public:
  /// One bounded turn. Returns the work done; 0 lets the loop idle.
  virtual int poll(Instant now) noexcept = 0;
};

}  // namespace weft
