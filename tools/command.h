// tools/command.h -- the subcommands of `weft` and what they share. Each parses its own options and returns
// the exit code: 0 done, 1 it failed, 2 wrong use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/state_dir.h"

namespace weft {

using Arguments = std::vector<std::string>;

int command_up(const Arguments& arguments);
int command_down(const Arguments& arguments);
int command_status(const Arguments& arguments);
int command_logs(const Arguments& arguments);
int command_exec(const Arguments& arguments);
int command_traffic(const Arguments& arguments);
int command_stat(const Arguments& arguments);
int command_capture(const Arguments& arguments);
int command_demo(const Arguments& arguments);
int command_keygen(const Arguments& arguments);

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;

/// The fabric named, or the only one that runs when `name` is empty; fails with a list when that is not
/// clear.
Result<StateDir> chosen_fabric(const std::string& name);
/// The node of the record; fails with the names there are.
Result<RecordedProcess> chosen_node(const RunRecord& record, const std::string& node);

/// Prints one line on standard output.
void print_line(std::string_view text);
/// Prints "weft COMMAND: text" on standard error and returns kExitFailed.
int failure(std::string_view command, std::string_view text);

/// A JSON string with its quotes.
std::string json_text(std::string_view text);

}  // namespace weft
