// tools/blockers.h -- what holds the traffic of a fabric up, in words, from two looks at its counters: which
// lane has no credit, whose pools are full, who is frozen or gone. Pure: `weft stat` reads pages and
// processes, tests make them up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/state_dir.h"

namespace weft::tools {

/// Peer of a spare port without an endnode.
inline constexpr std::string_view kSparePort = "spare";

/// What the tool knows about the fabric beside its counters.
struct FabricView {
  enum class Life : uint8_t { kRuns, kFrozen, kGone };
  std::vector<RecordedPort> ports;  // of the switches; the program on a spare port by name, else kSparePort
  std::map<uint64_t, std::string> lids;  // names of hosts and units
  std::map<std::string, Life> lives;     // of all processes, by name
  std::vector<std::string> faults;       // rules of the switches that strike, in words
};

/// Counters by name, the node's before them: "h1.link.vl.0.credits".
using CounterValues = std::map<std::string, uint64_t>;

/// One line for each thing that blocked or dropped between the two looks, `seconds` apart: first what stands
/// still, then what dropped, then what waited, the most frequent first. Empty when nothing did.
[[nodiscard]] std::vector<std::string> find_blockers(const FabricView& view, const CounterValues& before,
                                                     const CounterValues& after, double seconds);

/// True when the counter of that name, its last word or the whole, counts frames or cells lost.
[[nodiscard]] bool counts_losses(std::string_view name) noexcept;

/// Growth of one counter; a process that started again counts from zero.
[[nodiscard]] uint64_t growth(const CounterValues& before, const std::string& name, uint64_t now);

}  // namespace weft::tools
