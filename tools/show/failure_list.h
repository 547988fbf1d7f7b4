// tools/show/failure_list.h -- the latest failures of programs, from their stats pages (messages/failure.h).
#pragma once

#include <string>
#include <vector>

#include "tools/show/blockers.h"

namespace weft::tools {

struct NodeFailure {
  std::string node;
  std::string text;  // one line

  friend bool operator==(const NodeFailure&, const NodeFailure&) = default;
};

/// Removes the failures from `values`, because they are no counters, and returns them by node, the newest
/// last.
[[nodiscard]] std::vector<NodeFailure> take_failures(CounterValues& values);

}  // namespace weft::tools
