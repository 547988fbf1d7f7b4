// base/environment.h -- settings that a process takes from its environment.
#pragma once

#include <string>

namespace weft {

/// The variable's value; an absent variable counts as empty.
[[nodiscard]] std::string environment_variable(const char* name);

/// The directory that holds the state directories of all fabrics of this user; not created:
/// $WEFT_STATE_DIR, or the first of $XDG_RUNTIME_DIR/weft, /tmp/weft-UID and /dev/shm/weft-UID that is
/// writable: in a container all but the last may be read-only. Inside a user namespace UID is the one seen
/// from outside, so that processes inside and outside find the same fabrics.
[[nodiscard]] std::string state_directory_base();

}  // namespace weft
