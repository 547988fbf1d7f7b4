// tools/launch/program_check.h -- finds programs that our libraries cannot serve. The dynamic loader loads
// the libraries by LD_LIBRARY_PATH and LD_PRELOAD. Some programs have no dynamic loader, and for others it
// ignores these variables.
#pragma once

#include <string>

#include "base/result.h"

namespace weft::tools {

/// The file that execvp() would run for `word`. The error text is that of a shell. On failure `not_found` is
/// true if no such file exists, and false if the file may not be executed.
Result<std::string> find_command(const std::string& word, bool& not_found);

/// Why `file` cannot be served, in one line that begins with "is"; empty when it can. For a script its
/// interpreter is examined. An unreadable file counts as served.
[[nodiscard]] std::string unserved_reason(const std::string& file);

}  // namespace weft::tools
