// tools/surroundings.h -- what a process inherits. A fabric that comes with its first program serves others
// too, so it must have nothing of what that program was started with.
#pragma once

#include <string>
#include <vector>

namespace weft::tools {

/// Puts back what a process has after a login: scheduling class, nice value, cores, memory policy and I/O
/// priority, limits, signals, umask, working directory, the score of the OOM killer. The controlling terminal
/// is given up. One thread only.
/// @return what the rights of this user do not allow to put back, and what would end or slow the fabric:
/// "nice 15", "a limit of CPU time (7)". Cgroup, namespaces, seccomp filters and capabilities are kept
/// without a word: there is no call to leave them.
[[nodiscard]] std::vector<std::string> leave_surroundings();

}  // namespace weft::tools
