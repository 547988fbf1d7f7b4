// tools/stat_screen.h -- counters as `weft stat` prints them: lines of a table, and the screen of `weft stat
// --watch`, which fits its window. Pure: what has been read comes in, lines go out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/blockers.h"
#include "tools/terminal.h"

namespace weft::tools {

enum class StatOrder : uint8_t {
  kRate,  // the fastest first
  kName,
};

/// What a screen shows below its first line.
struct StatScreen {
  std::string title;
  std::vector<std::string> remarks;   // pages that cannot be read, and the like
  std::vector<std::string> blocked;   // of find_blockers()
  std::vector<std::string> failures;  // the latest failed requests of programs
  CounterValues before;
  CounterValues after;
  double seconds = 1;  // between the two
  StatOrder order = StatOrder::kRate;
  bool all = false;  // also what does not grow
};

/// The lines of the whole table, sorted by name: an entry, its value (tools/counter_words.h) and, where a
/// counter grew, by how much in a second. Entries of zero only with `all`.
[[nodiscard]] std::vector<std::string> stat_table(const StatScreen& screen);

/// The lines of one screen, none longer than the window is wide, one less than it is high: what blocks and
/// the latest failures, in at most a third of them, then a header and the entries that grew. How many did not
/// fit stands last.
[[nodiscard]] std::vector<std::string> stat_screen(const StatScreen& screen, const Window& window);

/// A rate in at most ten characters, with its unit where it has one: "12.5 k/s", "3.21 GB/s". `name` says
/// whether bytes are counted.
[[nodiscard]] std::string rate_text(const std::string& name, double per_second);

}  // namespace weft::tools
