// tools/node_names.h -- names that stay: who calls itself by one is the same endnode every time, with the
// same GUID and LID, on spare ports of a fabric.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "messages/ids.h"
#include "tools/state_dir.h"

namespace weft::tools {

struct NodeIdentity {
  Guid guid;
  uint64_t secret = 0;  // shown to the switch with the GUID
  Lid lid;
};

/// Every name that stays, as the file has it.
[[nodiscard]] std::map<std::string, NodeIdentity> known_names(const StateDir& dir);

/// The switch whose LID a name has; nothing for a new name.
[[nodiscard]] std::optional<SpareRecord> home_of(const StateDir& dir, const RunRecord& record,
                                                 const std::string& name);

/// What `name` has had in this fabric, or gets now for good: DIR/names, lines "GUIDHEX SECRETHEX LID NAME".
/// Fails on a name that cannot be one, that a node of the topology has, and when all LIDs for names are in
/// use.
Result<NodeIdentity> node_identity(const StateDir& dir, const RunRecord& record, const SpareRecord& spare,
                                   const std::string& name);

}  // namespace weft::tools
