// tools/launch/node_process.h -- one process of a fabric as the launcher sees it: how it is started, whether
// it runs, when it may start again.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "control/management.h"
#include "tools/launch/state_dir.h"
#include "tools/topology/node_commands.h"

namespace weft::tools {

inline constexpr Duration kBackOffFirst = std::chrono::milliseconds(50);
inline constexpr Duration kBackOffMax = std::chrono::seconds(1);
/// After a process has lived this long, its next restart waits only kBackOffFirst (decisions 5.3).
inline constexpr Duration kHealthy = std::chrono::seconds(2);

class NodeProcess {
 public:
  /// `lifeline` is the read end of a pipe; its end of file tells the process that the launcher is gone.
  /// `descriptors` are those that command.descriptors asks for. All stay open for the whole run, so that a
  /// restarted process gets the same interfaces.
  NodeProcess(NodeCommand command, std::string program_path, const StateDir& dir, int netns_fd, int lifeline,
              std::vector<UniqueFd> descriptors);

  Status start(Instant now);
  /// Records the exit and sets the time of the next start.
  void ended(int wait_status, Instant now);
  /// Postpones the next start, because something that the process needs is missing.
  void postpone(Instant now) noexcept { next_start_ = now + back_off_; }
  void signal(int number) const;
  /// Appends a line of the launcher to the log of the process, for example why it ended.
  void note(std::string_view text) const;

  [[nodiscard]] const NodeCommand& command() const noexcept { return command_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] bool running() const noexcept { return pid_ > 0; }
  /// Time since its last start.
  [[nodiscard]] Duration age(Instant now) const noexcept { return now - started_; }
  [[nodiscard]] Instant next_start() const noexcept { return next_start_; }
  [[nodiscard]] Duration back_off() const noexcept { return back_off_; }
  [[nodiscard]] uint32_t restarts() const noexcept { return restarts_; }
  [[nodiscard]] const std::string& control_path() const noexcept { return control_path_; }
  [[nodiscard]] const std::string& log_path() const noexcept { return log_path_; }
  [[nodiscard]] RecordedProcess record() const;
  /// "ended with code 1", "killed by signal 9 (SIGKILL)".
  [[nodiscard]] const std::string& last_exit() const noexcept { return last_exit_; }
  [[nodiscard]] int last_exit_code() const noexcept { return last_exit_code_; }
  /// The last line that the process wrote to its log before it ended.
  [[nodiscard]] const std::string& last_words() const noexcept { return last_words_; }

  /// Records what the process has answered about itself, or that it has not answered.
  void answered(bool is_ready) noexcept;
  /// According to its latest answer.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  /// In any of its lives since the launcher started.
  [[nodiscard]] bool ever_ready() const noexcept { return ever_ready_; }

  control::NodeInfo info;  // its latest answer
  Instant next_question = Instant::min();

 private:
  [[nodiscard]] std::string last_line() const;

  NodeCommand command_;
  std::string program_path_;
  std::string control_path_;
  std::string log_path_;
  int netns_fd_;
  int lifeline_;
  std::vector<UniqueFd> descriptors_;
  pid_t pid_ = 0;
  uint64_t start_ticks_ = 0;
  Instant started_{};
  Instant next_start_ = Instant::min();
  Duration back_off_ = kBackOffFirst;
  uint32_t restarts_ = 0;
  std::string last_exit_;
  std::string last_words_;
  int last_exit_code_ = 0;
  bool ready_ = false;
  bool ever_ready_ = false;
};

}  // namespace weft::tools
