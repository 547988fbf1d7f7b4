// tools/show/stat_screen.h -- formats counters for `weft stat`: the lines of the table, and the screen of
// `weft stat --watch`, which fits its window. No I/O.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/show/blockers.h"
#include "tools/show/terminal.h"

namespace weft::tools {

enum class StatOrder : uint8_t {
  kRate,  // fastest first
  kName,
};

/// Content of one screen.
struct StatScreen {
  std::string title;
  std::vector<std::string> remarks;   // such as unreadable pages
  std::vector<std::string> blocked;   // result of find_blockers()
  std::vector<std::string> failures;  // the latest failed requests of programs
  CounterValues before;
  CounterValues after;
  double seconds = 1;  // time between the two
  StatOrder order = StatOrder::kRate;
  bool all = false;  // also entries that do not grow
};

/// The lines of the whole table, sorted by name: an entry, its value (tools/show/counter_words.h), and the
/// growth per second of a counter that grew. Zero entries only with `all`.
[[nodiscard]] std::vector<std::string> stat_table(const StatScreen& screen);

/// The lines of one screen, not wider than the window and one line lower. First come blockers and latest
/// failures, in at most a third of the lines, then a header and the entries that grew. The last line tells
/// how many did not fit. In a narrow window the totals give way to names and rates.
[[nodiscard]] std::vector<std::string> stat_screen(const StatScreen& screen, const Window& window);

/// A rate with unit in at most ten characters: "12.5 k/s", "3.21 GB/s". The unit is bytes if the last word of
/// `name` contains "bytes".
[[nodiscard]] std::string rate_text(const std::string& name, double per_second);

}  // namespace weft::tools
