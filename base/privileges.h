// base/privileges.h -- what a driver process gives up before the first byte from the fabric (decisions
// section 4): every capability, in all sets, for good, and the way to get new ones by running a program.
#pragma once

#include "base/result.h"

namespace weft {

/// Empties the permitted, effective, inheritable, ambient and bounding sets of this thread and sets
/// no_new_privs. Call it before other threads start, after everything that needs a right has been opened.
Status drop_privileges();

/// True when the process has no capability at all.
[[nodiscard]] bool has_no_privileges() noexcept;

}  // namespace weft
