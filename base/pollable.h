// base/pollable.h -- what a loop runner drives: a core with bounded poll(now), and how it may be put to
// sleep.
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"

namespace weft {

/// How whatever a loop waits for is put to sleep and woken. Owner: the loop's thread.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Adds the descriptors whose readiness ends a sleep.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  /// Tells peers that a wake-up is needed from now on, then looks once more: false when there is work after
  /// all.
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
