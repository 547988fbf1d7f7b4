// tools/command.h -- the subcommands of `weft` and what they share. Each parses its own options and returns
// the exit code: 0 done, 1 it failed, 2 wrong use.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/fabric_choice.h"
#include "tools/state_dir.h"

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
// Of commands that become another program, as shells, env(1) and nice(1) have them.
inline constexpr int kExitNoFabric = 125;
inline constexpr int kExitCannotRun = 126;
inline constexpr int kExitNotFound = 127;

/// The fabric named; when `name` is empty, what SeenFabrics::choose() chooses.
Result<StateDir> chosen_fabric(const std::string& name, Among among = Among::kRunning);
/// The node of the record; fails with the names there are, `others` among them.
Result<RecordedProcess> chosen_node(const RunRecord& record, const std::string& node,
                                    std::vector<std::string> others = {});
/// The same, or a program that is there. The number of one that runs in another namespace of processes is 0.
Result<RecordedProcess> chosen_process(const StateDir& dir, const RunRecord& record, const std::string& node);

/// Puts "--" behind the first `own` words that are no options, so that those of a COMMAND are its own.
/// `valued`: our options that take a word.
Arguments shielded(Arguments words, std::initializer_list<std::string_view> valued, size_t own);

/// Prints one line on standard output; what could steer a terminal is spelled out.
void print_line(std::string_view text);
/// Prints `text` as it is.
void print_raw(std::string_view text);
/// `code`, or kExitFailed with a message when something could not be written to standard output.
int code_after_output(std::string_view command, int code);
/// Prints "weft COMMAND: text" on standard error and returns kExitFailed.
int failure(std::string_view command, std::string_view text);

/// A file that may not grow (ulimit -f) is an error of write() from here on, and does not end `weft`;
/// restore_signals() undoes it before another program takes its place.
void ignore_file_size_signal() noexcept;
void restore_signals() noexcept;

/// A JSON string with its quotes.
std::string json_text(std::string_view text);

}  // namespace weft::tools
