// tools/launch/surroundings.h -- resets inherited properties of a process. A fabric that `weft run` starts
// also serves later programs, so it must not keep settings of the first program.
#pragma once

#include <string>
#include <vector>

namespace weft::tools {

/// Restores the properties of a process after login: scheduling class, nice value, cores, memory policy, I/O
/// priority, limits, signals, umask, working directory, OOM score. Gives up the controlling terminal. Call
/// with one thread only.
/// @return properties that this user's rights do not allow to restore and that would end or slow the
///   fabric: "nice 15", "a limit of CPU time (7)". Cgroup, namespaces, seccomp filters and capabilities are
///   kept and not reported: no call can leave them.
[[nodiscard]] std::vector<std::string> leave_surroundings();

}  // namespace weft::tools
