// tools/fault_words.h -- faults as people write them, on the command line of `weft fault` and in fault
// scripts, and as a switch is asked for them. docs/faults.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "messages/fault_rule.h"

namespace weft::tools {

class TopologySection;

/// One fault in words. Empty words have the default.
struct FaultOrder {
  std::string target;  // NODE, SWITCH, SWITCH:PORT or lid:N
  std::string kind;    // a kind of docs/faults.md, or freeze, kill
  std::string value;   // 2ms, 1ms..5ms (delay), 1000, 10Gbit (rate), 1s/200ms (flap), 1% (drop and the like)
  std::string chance;  // 1%, 0.01%
  std::string direction;  // both, from, to
  std::vector<std::string> lanes;
  std::string opcode;  // name of an operation: send, rdma-write, ...
  uint32_t every = 1;
  uint64_t limit = 0;
  std::string lasts;     // 5s
  uint64_t seed = 0;     // 0: choose one
  bool prepare = false;  // the target is a name whose program is still to come
  Duration at{};         // of a script: after its start
};

/// "250us", "1.5s", "20 msec": a number with ns, us, ms, s, m or h, or a longer word for it; nothing when
/// it is none, negative, or above a year.
[[nodiscard]] std::optional<Duration> parse_time_span(const std::string& text);
/// "1%", "0.5%" in parts per million; nothing when it is none, 0, or above 100 %.
[[nodiscard]] std::optional<uint32_t> parse_percent(const std::string& text);
/// "10Gbit", "500Mbit/s", "64kbps": bits per second, with k, M, G or T, of a thousand; nothing when it is
/// none, below 1, or above a thousand Tbit.
[[nodiscard]] std::optional<uint64_t> parse_bit_rate(const std::string& text);
[[nodiscard]] std::string format_bit_rate(uint64_t bits_per_second);
[[nodiscard]] std::string format_time_span(Duration span);

/// True when no switch can do it: the process of the target is stopped or killed.
[[nodiscard]] bool strikes_process(const FaultOrder& order);
/// The rule of an order for a switch, without its port and endnode; fails with the word that is wrong and
/// what is allowed.
Result<FaultRule> fault_rule(const FaultOrder& order);
/// Says what is wrong with an order, for a switch or for a process.
Status check_order(const FaultOrder& order);
/// One line about a rule: "drop 1% of cells, both ways, every 3rd, seed 7".
[[nodiscard]] std::string describe_fault(const FaultRule& rule);

/// One [[fault]] table, checked but for its target. Throws TopologyFault.
[[nodiscard]] FaultOrder read_fault(TopologySection& section);
/// By their times; of one time as they stand.
void sort_by_time(std::vector<FaultOrder>& orders);
/// [[fault]] tables of a script or a topology file, in the order of their times. Every complaint has file,
/// line and column.
Result<std::vector<FaultOrder>> read_fault_script(const std::string& path);

}  // namespace weft::tools
