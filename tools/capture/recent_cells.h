// tools/capture/recent_cells.h -- the last cells of all ports of a switch, kept until it is known which
// port is the one that people asked for.
#pragma once

#include <deque>
#include <vector>

#include "base/capture_ring.h"
#include "messages/ids.h"

namespace weft::tools {

/// Cells of the last moments, those of all ports, in order.
class RecentCells {
 public:
  /// A program is seen this long after its first cell at the latest.
  static constexpr uint64_t kKeptNs = 2'000'000'000;
  static constexpr size_t kKeptBytesMax = size_t{64} << 20;

  void add(CapturedFrame cell);
  /// Those that `lid` sent or gets at port `port` of the switch, as of its captures; none is left.
  [[nodiscard]] std::vector<CapturedFrame> take(uint32_t port, Lid lid);

 private:
  std::deque<CapturedFrame> cells_;
  size_t bytes_ = 0;
};

}  // namespace weft::tools
