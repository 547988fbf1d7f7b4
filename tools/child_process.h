// tools/child_process.h -- starts programs: descriptors handed over under fixed numbers, output to a file or
// a string, a network namespace entered, never a descriptor more than asked for.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace weft::tools {

/// Descriptors of a child are 0, 1, 2, then kFirstHandedFd and on, in the order of `handed`.
inline constexpr int kFirstHandedFd = 3;

struct ChildSpec {
  std::vector<std::string> argv;  // argv[0] is the path of the program
  std::vector<int> handed;        // become kFirstHandedFd, kFirstHandedFd + 1, ...
  std::string log_path;           // stdout and stderr are appended here; empty: /dev/null
  int netns_fd = -1;              // entered before the program starts; -1: stay
  bool end_with_parent = true;  // SIGTERM when the starting thread dies, beside what the program does itself
};

/// Starts the program in a process group of its own. Fails with the reason when it cannot be executed.
Result<pid_t> start_child(const ChildSpec& spec);

struct CommandResult {
  int exit_code = 0;   // 128 + signal when killed
  std::string output;  // stdout and stderr together, at most 64 KiB
};

/// Runs a helper program to its end, at most `timeout`, then kills it.
Result<CommandResult> run_command(const std::vector<std::string>& argv, int netns_fd, Duration timeout);

/// Path of a program of ours: beside this program, else through PATH; empty when there is none.
std::string find_program(const std::string& name);

}  // namespace weft::tools
