// fabric/switch/port_timers.h -- deadlines of ports that are not polled: a heap with at most one time per
// port.
#pragma once

#include <array>

#include "base/clock.h"
#include "fabric/switch/port.h"

namespace weft::fabric {

/// Owner: the switch's thread. set() and erase() take logarithmic time and no memory.
class PortTimers {
 public:
  /// kNever when no port has a time.
  [[nodiscard]] Instant earliest() const noexcept { return count_ == 0 ? kNever : due_[heap_[0]]; }
  /// The port whose time is earliest; there must be one.
  [[nodiscard]] PortNumber first() const noexcept { return heap_[0]; }
  /// Sets the port's time. The port must not have one.
  void set(PortNumber port, Instant due) noexcept;
  /// No effect on a port without a time.
  void erase(PortNumber port) noexcept;

 private:
  static constexpr uint16_t kNowhere = 0;  // places count from 1
  void place(size_t at, PortNumber port) noexcept {
    heap_[at] = port;
    place_[port] = static_cast<uint16_t>(at + 1);
  }
  void rise(size_t at) noexcept;
  void sink(size_t at) noexcept;

  size_t count_ = 0;
  std::array<PortNumber, PortSet::kPortsMax> heap_{};
  std::array<uint16_t, PortSet::kPortsMax> place_{};
  std::array<Instant, PortSet::kPortsMax> due_{};
};

}  // namespace weft::fabric
