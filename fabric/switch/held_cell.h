// fabric/switch/held_cell.h -- a cell that a fault on demand has taken out of forwarding.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "fabric/switch/forwarding_table.h"
#include "messages/ids.h"

namespace weft::fabric {

/// A cell with all data needed to send it later.
struct HeldCell {
  PortNumber input = kPortNone;
  PortNumber output = kPortNone;
  VirtualLane vl{};
  bool copy = false;      // of a cell that was forwarded; counts as one more cell that came in
  bool overtaken = true;  // false: waits until another cell for the same output passes
  Instant due{};
  Instant latest{};              // until then it may wait for queued cells on its lane
  std::vector<std::byte> bytes;  // flit payloads, one behind the other
  struct Flit {
    uint32_t bytes = 0;
    uint32_t cell_crc = 0;
    bool poison = false;
  };
  std::vector<Flit> flits;
  // A cell that waits for a rate (fabric/switch/rate_queues.h) keeps the credits of its flits.
  uint32_t paced_by = 0;     // number of the rule; 0: the cell does not wait for a rate
  bool takes_time = true;    // false: only keeps its place behind cells that wait
  Duration takes{};          // transmission time at the rate
  uint64_t incarnation = 0;  // of the input's link
};

}  // namespace weft::fabric
