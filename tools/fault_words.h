// tools/fault_words.h -- faults as people write them, on the command line of `weft fault` and in fault
// scripts, and as a switch is asked for them. docs/faults.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/management.h"

namespace weft::tools {

/// One fault in words. Empty words have the default.
struct FaultOrder {
  std::string target;     // NODE, SWITCH, SWITCH:PORT or lid:N
  std::string kind;       // a kind of docs/faults.md, or freeze, kill
  std::string value;      // of delay: 2ms or 1ms..5ms; of rate: cells per second; of flap: 1s/200ms
  std::string chance;     // 1%, 0.01%
  std::string direction;  // both, from, to
  std::vector<std::string> lanes;
  std::string opcode;  // name of an operation: send, rdma-write, ...
  uint32_t every = 1;
  uint64_t limit = 0;
  std::string lasts;  // 5s
  uint64_t seed = 0;  // 0: choose one
  Duration at{};      // of a script: after its start
};

/// "250us", "1.5s": a number with ns, us, ms, s, m or h; nothing when it is none, negative, or above a year.
[[nodiscard]] std::optional<Duration> parse_time_span(const std::string& text);
/// "1%", "0.5%" in parts per million; nothing when it is none, 0, or above 100 %.
[[nodiscard]] std::optional<uint32_t> parse_percent(const std::string& text);
[[nodiscard]] std::string format_time_span(Duration span);

/// The rule, without its port; fails with the word that is wrong and what is allowed.
Result<control::FaultWish> fault_wish(const FaultOrder& order);
/// One line about a rule: "drop 1% of cells, both ways, every 3rd, seed 7".
[[nodiscard]] std::string describe_fault(const control::FaultWish& rule);

/// [[fault]] tables, in the order of their times. Every complaint has file, line and column.
Result<std::vector<FaultOrder>> read_fault_script(const std::string& path);

}  // namespace weft::tools
