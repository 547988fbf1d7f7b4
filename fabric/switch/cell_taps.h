// fabric/switch/cell_taps.h -- copies of cells for `weft capture`: one capture point per port of a switch.
// Captures take there the cells that the neighbour sends and those that go to it. Without a capture the cost
// is one comparison per cell.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/capture_point.h"
#include "fabric/link/link.h"
#include "fabric/switch/forwarding_table.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Owner: the switch's thread. May allocate while a capture runs, so a capture disturbs measurements.
class CellTaps {
 public:
  /// Makes points for ports 1 to `ports`, named by their numbers.
  explicit CellTaps(uint32_t ports);

  /// Port n is at index n - 1.
  [[nodiscard]] std::vector<CapturePoint*> points();
  [[nodiscard]] bool active() const noexcept { return running_ != 0; }

  /// The head of an admitted cell has come in by `in` for `out`; kPortNone when the cell is lost here. `note`
  /// says what a fault does to the cell. @return true when add() must get the cell's further flits.
  [[nodiscard]] bool begin(PortNumber in, PortNumber out, const RxFlit& flit, const CellHead& head,
                           std::string_view note = {});
  /// The head of a cell that the switch refuses, with the reason.
  void refused(PortNumber in, const RxFlit& flit, std::string_view reason) noexcept;
  /// A further flit of the cell that began last on this port and lane.
  void add(PortNumber in, const RxFlit& flit);
  /// A multicast cell: sent() records the sender's cell, received() each copy.
  void sent(PortNumber in, const RxFlit& flit, const CellHead& head, std::string_view note = {}) noexcept;
  void received(PortNumber out, const RxFlit& flit, const CellHead& head,
                std::string_view note = {}) noexcept;

 private:
  /// A cell that comes in several flits.
  struct Growing {
    PortNumber out = kPortNone;
    std::vector<std::byte> bytes;
    std::string note;
  };
  [[nodiscard]] CapturePoint* wanted(PortNumber port) noexcept;
  void write(PortNumber port, FrameDirection direction, std::span<const std::byte> head,
             std::span<const std::byte> rest, std::string_view note) noexcept;

  uint32_t running_ = 0;  // sum over the running captures of the ports that each takes
  std::deque<CapturePoint> points_;
  std::map<uint32_t, Growing> growing_;  // by port and lane
};

}  // namespace weft::fabric
