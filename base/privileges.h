// base/privileges.h -- before it reads the first byte from the fabric, a driver process gives up every
// capability for good, and the means to gain new ones through execve() (decisions section 4).
#pragma once

#include "base/result.h"

namespace weft {

/// Empties the permitted, effective, inheritable, ambient and bounding sets of this thread and sets
/// no_new_privs. Call it before other threads start, after everything that needs a capability has been
/// opened.
Status drop_privileges();

/// True when the process has no capability at all.
[[nodiscard]] bool has_no_privileges() noexcept;

}  // namespace weft
