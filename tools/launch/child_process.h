// tools/launch/child_process.h -- starts programs. Hands descriptors over under fixed numbers, and no others;
// sends the output to a file or a string; may enter a network namespace.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace weft::tools {

/// A child gets descriptors 0, 1, 2, and from kFirstHandedFd on those of `handed`, in its order.
inline constexpr int kFirstHandedFd = 3;

struct ChildSpec {
  std::vector<std::string> argv;  // argv[0] is the path of the program
  std::vector<int> handed;        // become kFirstHandedFd, kFirstHandedFd + 1, ...
  std::string log_path;           // stdout and stderr are appended here; empty: /dev/null
  int netns_fd = -1;              // network namespace for the child; -1: that of this process
  /// The child gets SIGTERM when the thread that started it ends. The program may watch its parent as well.
  bool end_with_parent = true;
};

/// Starts the program in its own process group. Fails, with the reason, when it cannot be executed.
Result<pid_t> start_child(const ChildSpec& spec);

struct CommandResult {
  int exit_code = 0;   // 128 + signal number when a signal ended the program
  std::string output;  // stdout and stderr together, at most 64 KiB
};

/// Runs a program until it ends; after `timeout` kills it and fails.
Result<CommandResult> run_command(const std::vector<std::string>& argv, int netns_fd, Duration timeout);

/// Path of a program: looked for beside this program, then in PATH; empty when there is none.
std::string find_program(const std::string& name);

}  // namespace weft::tools
