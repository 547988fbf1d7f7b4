// base/environment.h -- what a process's environment says.
#pragma once

#include <string>

namespace weft {

/// The variable's value; empty when it is absent, which is as good.
[[nodiscard]] std::string environment_variable(const char* name);

/// The directory that holds the state directories of all fabrics of this user; not created:
/// $WEFT_STATE_DIR, or the first of $XDG_RUNTIME_DIR/weft, /tmp/weft-UID and /dev/shm/weft-UID that we may
/// write: a container may have all but the last read-only. Within a user namespace the UID is the one that
/// those outside see, so that both find the same fabrics.
[[nodiscard]] std::string state_directory_base();

}  // namespace weft
