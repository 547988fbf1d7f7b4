// tools/launch/program_files.h -- files that programs of `weft run` leave in the directory of their fabric.
#pragma once

#include <cstddef>
#include <string>

namespace weft::tools {

/// Number of ended programs whose counters are kept, the latest ones.
inline constexpr size_t kEndedProgramsMax = 32;

/// Makes the directory for the system files of this process, `directory`/sys-PID. Empty, with errno set, on
/// failure.
[[nodiscard]] std::string make_program_tree(const std::string& directory);

/// Removes what killed programs could not remove: trees of system files (sys-PID), counters that were not yet
/// in their place (NAME.stats.PID), the sockets by which programs with memory windows meet (direct/), and the
/// counters (NAME-PID.stats) of all but the latest kEndedProgramsMax ended programs. Keeps other files, and
/// trees of programs in other PID namespaces, because they may still run.
void clear_up_programs(const std::string& directory);

}  // namespace weft::tools
