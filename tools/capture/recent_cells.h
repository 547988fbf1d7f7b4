// tools/capture/recent_cells.h -- the latest cells of all ports of a switch, kept until the port of the
// wanted program is known.
#pragma once

#include <deque>
#include <vector>

#include "base/net/capture_ring.h"
#include "messages/ids.h"

namespace weft::tools {

/// Cells of all ports from the last kKeptNs, oldest first; at most kKeptBytesMax bytes.
class RecentCells {
 public:
  /// In nanoseconds. A program is found at the latest this long after its first cell.
  static constexpr uint64_t kKeptNs = 2'000'000'000;
  static constexpr size_t kKeptBytesMax = size_t{64} << 20;

  void add(CapturedFrame cell);
  /// Returns the cells that `lid` sent or received at `port` and forgets all others. `port` counts as in
  /// captures of the switch.
  [[nodiscard]] std::vector<CapturedFrame> take(uint32_t port, Lid lid);

 private:
  std::deque<CapturedFrame> cells_;
  size_t bytes_ = 0;
};

}  // namespace weft::tools
