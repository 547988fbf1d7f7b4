// verbs/fault_note.h -- which faults on demand may be why a peer is silent, from the page of the switch.
#pragma once

#include <string>

#include "messages/ids.h"

namespace weft::verbs {

/// "; fault s1:5 is in force for this program and has struck 12 cells" for each rule of the switch at
/// `endpoint` that has struck; empty where there is none, or the switch is not of this machine.
/// @param own  GUID of this process's port
[[nodiscard]] std::string fault_note(const std::string& endpoint, Guid own);

}  // namespace weft::verbs
