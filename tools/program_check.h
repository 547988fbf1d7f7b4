// tools/program_check.h -- can a program be served by libraries of ours? The dynamic loader takes them by
// LD_LIBRARY_PATH and LD_PRELOAD; it is not there in some programs, and ignores both in others.
#pragma once

#include <string>

#include "base/result.h"

namespace weft::tools {

/// The file that execvp() would run for `word`; fails as a shell says it. `not_found` tells why: no such
/// file, or one that may not be run.
Result<std::string> find_command(const std::string& word, bool& not_found);

/// Why `file` cannot be served, in one line that begins with "is"; empty when it can. A script is judged by
/// its interpreter. What cannot be read is not judged.
[[nodiscard]] std::string unserved_reason(const std::string& file);

}  // namespace weft::tools
