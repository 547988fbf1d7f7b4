// tools/program_files.h -- what programs of `weft run` leave behind in the directory of their fabric.
#pragma once

#include <cstddef>
#include <string>

namespace weft::tools {

/// The counters of this many programs that have ended stay readable, the latest ones.
inline constexpr size_t kEndedProgramsMax = 32;

/// Makes the directory for the system files of this process, `directory`/sys-PID. Empty when it cannot;
/// errno says why.
[[nodiscard]] std::string make_program_tree(const std::string& directory);

/// Removes what programs that were killed could not: their trees of system files (sys-PID), and counters
/// (NAME-PID.stats) beyond kEndedProgramsMax. Files of other names stay, and trees of programs of
/// other PID namespaces, which may still run.
void clear_up_programs(const std::string& directory);

}  // namespace weft::tools
