// tools/launch/node_names.h -- lasting names of programs on spare ports: a program started under such a name
// is always the same endnode, with the same GUID and LID.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "messages/ids.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

struct NodeIdentity {
  Guid guid;
  uint64_t secret = 0;  // proves to the switch that the GUID is ours
  Lid lid;
};

/// All lasting names in DIR/names.
[[nodiscard]] std::map<std::string, NodeIdentity> known_names(const StateDir& dir);

/// The switch to which a name's LID belongs; nothing for a new name.
[[nodiscard]] std::optional<SpareRecord> home_of(const StateDir& dir, const RunRecord& record,
                                                 const std::string& name);

/// The identity that `name` has in this fabric; a new name gets one for good. They are stored in DIR/names,
/// lines "GUIDHEX SECRETHEX LID NAME". Fails for an invalid name, for the name of a node of the topology, and
/// when all LIDs for names are in use.
Result<NodeIdentity> node_identity(const StateDir& dir, const RunRecord& record, const SpareRecord& spare,
                                   const std::string& name);

}  // namespace weft::tools
