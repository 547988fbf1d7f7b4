// tools/used_fabric.h -- the fabric that a program of `weft run` joins: one that runs, or one that is started
// for it and ends with its last user.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/fabric_users.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// Name of the fabric that is started where none is named.
inline constexpr std::string_view kDefaultFabric = "default";
/// What it is made of.
[[nodiscard]] std::string default_topology();

struct UsedFabric {
  StateDir dir;
  RunRecord record;
  UniqueFd use;      // to hold, over exec() too; not valid where `weft down` ends the fabric
  std::string note;  // what the user should know of a fabric that was started for this call; may be empty
};

/// `choice`: the name of a running fabric, a topology file, or empty for the one that WEFT_FABRIC names, else
/// the one that every command means (tools/fabric_choice.h) if it has spare ports, else the default one.
/// What does not run is started where there is a topology for it; concurrent callers start it once.
Result<UsedFabric> use_fabric(const std::string& choice);

/// Where a program joins.
struct JoinWish {
  std::string switch_name;  // empty: any
  std::string node;         // of weft run --node; may be empty
};
/// The switch that is wished for; else the one that the name's LID belongs to, else that of the program
/// around this one, else the one with most free spare ports. Fails when no switch has any, or not the one
/// named.
Result<SpareRecord> spare_switch(const StateDir& dir, const RunRecord& record, const JoinWish& wish);

}  // namespace weft::tools
