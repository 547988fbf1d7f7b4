// tools/show/live_view.h -- the table that `weft up` redraws on a terminal.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "tools/launch/node_process.h"

namespace weft::tools {

class LiveView {
 public:
  /// Draws over the previous table, at most four times a second.
  void draw(const std::string& fabric, const std::vector<NodeProcess>& nodes, Instant now);
  /// Leaves the table on the screen; the next draw() starts below it.
  void finish();

 private:
  Instant next_ = Instant::min();
  size_t lines_ = 0;
};

}  // namespace weft::tools
