// verbs/explain/fault_note.h -- reads the switch's stats page for faults on demand that may explain why a
// peer is silent.
#pragma once

#include <string>

#include "messages/ids.h"

namespace weft::verbs {

/// "; fault s1:5 is in force for this program and has struck 12 cells" for each rule of the switch at
/// `endpoint` that has struck a cell. Empty when there is none, or when the switch runs on another machine.
/// @param own  GUID of this process's port
[[nodiscard]] std::string fault_note(const std::string& endpoint, Guid own);

/// The same for each fault of the memory windows of this program, by its own stats page at `page`.
[[nodiscard]] std::string window_fault_note(const std::string& page);

}  // namespace weft::verbs
