// tools/fault/fault_words.h -- parses faults as users write them on the command line of `weft fault` and in
// fault scripts, and makes rules for switches of them. docs/faults.md.
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

/// One fault as the user's words. An empty word means the default.
struct FaultOrder {
  std::string target;     // NODE, SWITCH, SWITCH:PORT or lid:N
  std::string kind;       // a kind of docs/faults.md, or freeze, kill
  std::string value;      // 2ms, 1ms..5ms (delay), 1000, 10Gbit (rate), 1s/200ms (flap), 1% (drop, ...)
  std::string chance;     // 1%, 0.01%
  std::string direction;  // both, from, to
  std::vector<std::string> lanes;
  std::string opcode;  // name of an operation: send, rdma-write, ...
  uint32_t every = 1;
  uint64_t limit = 0;
  std::string lasts;     // 5s
  uint64_t seed = 0;     // 0: choose one
  bool prepare = false;  // the target is the name of a program that has not started
  Duration at{};         // in a script: time after its start
};

/// Parses "1%" or "0.5%" into parts per million. Nothing for other forms, 0, and above 100 %.
[[nodiscard]] std::optional<uint32_t> parse_percent(const std::string& text);
/// Parses "10Gbit", "500Mbit/s", "64kbps" into bits per second, with decimal k, M, G or T. Nothing for other
/// forms, below 1 bit/s, and above 1000 Tbit/s.
[[nodiscard]] std::optional<uint64_t> parse_bit_rate(const std::string& text);
[[nodiscard]] std::string format_bit_rate(uint64_t bits_per_second);

/// True when the fault stops or kills the target's process, which no switch can do.
[[nodiscard]] bool strikes_process(const FaultOrder& order);
/// Makes a switch's rule of an order, without port and endnode. Fails with the wrong word and the allowed
/// ones.
Result<FaultRule> fault_rule(const FaultOrder& order);
/// Checks an order for a switch or for a process; the error names the wrong word.
Status check_order(const FaultOrder& order);
/// One line about a rule: "drop 1% of cells, both ways, every 3rd, seed 7".
[[nodiscard]] std::string describe_fault(const FaultRule& rule);

/// Reads one [[fault]] table and checks everything but its target. Throws TopologyFault.
[[nodiscard]] FaultOrder read_fault(TopologySection& section);
/// Sorts by time; orders with equal times keep their order.
void sort_by_time(std::vector<FaultOrder>& orders);
/// Reads the [[fault]] tables of a script or topology file, sorted by time. Errors have file, line and
/// column.
Result<std::vector<FaultOrder>> read_fault_script(const std::string& path);

}  // namespace weft::tools
