// tools/show/prometheus_text.h -- counters in the text format of Prometheus, for `weft stat --prometheus`. No
// I/O.
#pragma once

#include <string>
#include <vector>

#include "tools/show/blockers.h"

namespace weft::tools {

/// One line per counter, gauge and state: weft_WORD{node="NODE",place="PLACE"} VALUE, where WORD is the last
/// word of the entry's name; counters end in _total. Entries of kind number are left out, because they
/// measure nothing. Lines of one metric are together, with their # TYPE line before them. `nodes` are the
/// names that may stand in front of the entries' names; they may have dots.
[[nodiscard]] std::string prometheus_text(const CounterValues& values, const std::vector<std::string>& nodes);

}  // namespace weft::tools
