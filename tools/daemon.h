// tools/daemon.h -- a launcher without a terminal, and its word to its starter.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::tools {

/// The daemon's word to the waiting starter: ready, or the reason why not. Without a starter it says nothing.
class DaemonReport {
 public:
  DaemonReport() = default;
  explicit DaemonReport(UniqueFd fd) : fd_(std::move(fd)) {}
  /// `note`: what the starter should tell its user all the same.
  void ready(const std::string& note = {}) { send("r" + note); }
  void failed(const std::string& why) { send("e" + why); }
  /// The daemon's note; in the starter.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

 private:
  void send(const std::string& text);
  UniqueFd fd_;
  std::string note_;
};

/// Forks a daemon: no child of ours, a process group of its own, no descriptor but its report, standard ones
/// at /dev/null.
/// @return true in the daemon, which has set `report`; false in the caller when the daemon is ready; in the
/// caller an error with the daemon's reason when it failed.
Result<bool> start_daemon(DaemonReport& report);

/// Notes where the system looks for the command line of this process; once, before any thread.
void remember_command_line(int argc, char** argv) noexcept;
/// What ps(1) shows from here on, as far as the command line's bytes go; nothing where it was not remembered.
/// The arguments that main() got must not be read any more.
void show_command_line(std::string_view text) noexcept;

}  // namespace weft::tools
