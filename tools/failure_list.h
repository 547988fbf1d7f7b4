// tools/failure_list.h -- the latest failures of programs, from what their pages show (messages/failure.h).
#pragma once

#include <string>
#include <vector>

#include "tools/blockers.h"

namespace weft::tools {

struct NodeFailure {
  std::string node;
  std::string text;  // one line

  friend bool operator==(const NodeFailure&, const NodeFailure&) = default;
};

/// Takes the failures out of the counters: they are no counters. By node, the newest of each last.
[[nodiscard]] std::vector<NodeFailure> take_failures(CounterValues& values);

}  // namespace weft::tools
