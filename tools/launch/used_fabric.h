// tools/launch/used_fabric.h -- the fabric that a program of `weft run` joins: a running one, or one that is
// started for it and ends with its last user.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/launch/fabric_users.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Name of the fabric that is started when none is named.
inline constexpr std::string_view kDefaultFabric = "default";
/// Topology of the default fabric, as TOML.
[[nodiscard]] std::string default_topology();

struct UsedFabric {
  StateDir dir;
  RunRecord record;
  UniqueFd use;      // to be held, also over exec(); not valid if only `weft down` ends the fabric
  std::string note;  // text for the user about a fabric that this call started; may be empty
};

/// `choice`: the name of a running fabric, a topology file, or empty. Empty means the fabric in WEFT_FABRIC,
/// else the one that commands without --fabric mean (tools/launch/fabric_choice.h) if it has spare ports,
/// else the default one. A fabric that does not run is started if its topology is known; concurrent callers
/// start it once.
Result<UsedFabric> use_fabric(const std::string& choice);

/// Wishes about the place to join.
struct JoinWish {
  std::string switch_name;  // empty: any; of several adapters also several, commas between
  std::string node;         // name of weft run --node; may be empty
};
/// The wanted switch; else the one that owns the name's LID, else the one of a surrounding program, else the
/// one with most free spare ports. Fails when no switch has spare ports or the wanted one has none.
Result<SpareRecord> spare_switch(const StateDir& dir, const RunRecord& record, const JoinWish& wish);
/// The switches of a program with `adapters` adapters, which join them in turn: the wanted ones, else the one
/// of spare_switch() and then the others that have spare ports. At most as many as there are adapters.
Result<std::vector<SpareRecord>> spare_switches(const StateDir& dir, const RunRecord& record,
                                                const JoinWish& wish, uint32_t adapters);

}  // namespace weft::tools
