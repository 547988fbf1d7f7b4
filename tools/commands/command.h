// tools/commands/command.h -- the subcommands of `weft` and their common functions. Each subcommand parses
// its own options and returns the exit code: 0 success, 1 failure, 2 wrong use.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/launch/fabric_choice.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

using Arguments = std::vector<std::string>;

int command_up(const Arguments& arguments);
int command_down(const Arguments& arguments);
int command_status(const Arguments& arguments);
int command_logs(const Arguments& arguments);
int command_exec(const Arguments& arguments);
int command_run(const Arguments& arguments);
int command_shell(const Arguments& arguments);
int command_devices(const Arguments& arguments);
int command_doctor(const Arguments& arguments);
int command_traffic(const Arguments& arguments);
int command_stat(const Arguments& arguments);
int command_nic(const Arguments& arguments);
int command_capture(const Arguments& arguments);
int command_fault(const Arguments& arguments);
int command_demo(const Arguments& arguments);
int command_keygen(const Arguments& arguments);

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitWrongUse = 2;
// Exit codes of commands that execute another program, as in shells, env(1) and nice(1).
inline constexpr int kExitNoFabric = 125;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitNotFound = 127;

/// The fabric of that name; if `name` is empty, the choice of SeenFabrics::choose().
Result<StateDir> chosen_fabric(const std::string& name, Among among = Among::kRunning);
/// The node in the record. On failure the error lists all nodes and `others`.
Result<RecordedProcess> chosen_node(const RunRecord& record, const std::string& node,
                                    std::vector<std::string> others = {});
/// The same, also for programs that have joined. The pid is 0 if the program runs in another PID namespace.
Result<RecordedProcess> chosen_process(const StateDir& dir, const RunRecord& record, const std::string& node);

/// Inserts "--" after the first `own` words that are no options, so that later options belong to the user's
/// COMMAND. `valued`: our options that take a value.
Arguments shielded(Arguments words, std::initializer_list<std::string_view> valued, size_t own);

/// Prints one line on standard output. Control characters are printed as escapes, because they could steer a
/// terminal.
void print_line(std::string_view text);
/// Prints `text` unchanged.
void print_raw(std::string_view text);
/// True once a write to standard output has failed: nothing is printed any more, and a command that prints
/// until Ctrl-C has to end.
[[nodiscard]] bool output_failed() noexcept;
/// Returns `code`; if a write to standard output has failed, prints a message and returns kExitFailed.
int code_after_output(std::string_view command, int code);
/// Prints "weft COMMAND: text" on standard error and returns kExitFailed.
int failure(std::string_view command, std::string_view text);

/// Ignores SIGXFSZ, so that a file beyond ulimit -f makes write() fail instead of ending `weft`.
/// restore_signals() undoes this before another program is executed.
void ignore_file_size_signal() noexcept;
void restore_signals() noexcept;

/// A JSON string, with quotes.
std::string json_text(std::string_view text);

}  // namespace weft::tools
