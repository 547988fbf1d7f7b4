// tools/show/blockers.h -- explains in words what blocks the traffic of a fabric, from its counters at two
// times: a lane without credit, full pools, a frozen or dead process. No I/O: `weft stat` reads pages and
// processes, tests invent them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Peer of a spare port without an endnode.
inline constexpr std::string_view kSparePort = "spare";

/// Facts about the fabric beside its counters.
struct FabricView {
  enum class Life : uint8_t { kRuns, kFrozen, kGone };
  /// Ports of the switches. `peer` of a spare port is the name of its program, or kSparePort without one.
  std::vector<RecordedPort> ports;
  std::map<uint64_t, std::string> lids;  // names of hosts and units
  std::map<std::string, Life> lives;     // all processes, by name
  std::vector<std::string> faults;       // texts of the switches' rules that have struck
};

/// Counters by name with the node's name in front, like "h1.link.vl.0.credits".
using CounterValues = std::map<std::string, uint64_t>;

/// One line for each cause of blocking or loss between the two looks, which are `seconds` apart. First
/// standing conditions, then losses, then waiting, the most frequent first. Empty when nothing blocked or
/// dropped.
[[nodiscard]] std::vector<std::string> find_blockers(const FabricView& view, const CounterValues& before,
                                                     const CounterValues& after, double seconds);

/// True when the counter counts lost frames or cells. `name` is its last word or its whole name.
[[nodiscard]] bool counts_losses(std::string_view name) noexcept;

/// Growth of one counter. A value below the earlier one means that the process has restarted and counts from
/// zero.
[[nodiscard]] uint64_t growth(const CounterValues& before, const std::string& name, uint64_t now);

}  // namespace weft::tools
