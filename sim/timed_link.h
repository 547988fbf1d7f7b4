// sim/timed_link.h -- a link that models only time: bytes per second, a delay, and room for cells that wait
// to leave. For measurements of the transport alone in virtual time: no flits, no credits, no switch.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "fabric/link/cell_port.h"

namespace weft::sim {

struct TimedLinkConfig {
  uint32_t cell_payload_bytes = 1024;
  Duration latency{};
  uint64_t bytes_per_second = 0;
  uint32_t room_cells = 0;  // room for cells that wait to leave, in each direction
};

/// Owner: the thread of both ends.
class TimedLink {
 public:
  explicit TimedLink(const TimedLinkConfig& config);
  ~TimedLink();
  TimedLink(const TimedLink&) = delete;
  TimedLink& operator=(const TimedLink&) = delete;

  [[nodiscard]] fabric::CellPort& end(uint32_t index) noexcept;

 private:
  class End;
  std::array<std::unique_ptr<End>, 2> ends_;
};

}  // namespace weft::sim
