// tools/launch/daemon.h -- a launcher without a terminal, and the report that it sends to its starter.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::tools {

/// The daemon's report to the waiting starter: ready, or the reason of a failure. A default-constructed
/// report sends nothing.
class DaemonReport {
 public:
  DaemonReport() = default;
  explicit DaemonReport(UniqueFd fd) : fd_(std::move(fd)) {}
  /// `note`: a text that the starter should show to its user.
  void ready(const std::string& note = {}) { send("r" + note); }
  void failed(const std::string& why) { send("e" + why); }
  /// The daemon's note, for the starter.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }
  void set_note(std::string note) { note_ = std::move(note); }

 private:
  void send(const std::string& text);
  UniqueFd fd_;
  std::string note_;
};

/// Forks a daemon. It is no child of the caller, has its own process group, standard descriptors at /dev/null
/// and no other descriptor than its report.
/// @return true in the daemon, with `report` set; false in the caller once the daemon is ready; an error
///   with the daemon's reason in the caller if the daemon fails
Result<bool> start_daemon(DaemonReport& report);

/// Notes where this process's command line is stored. Call once, before any thread starts.
void remember_command_line(int argc, char** argv) noexcept;
/// Makes ps(1) show `text`, cut to the length of the original command line. Does nothing without
/// remember_command_line(). Afterwards the arguments of main() must not be read.
void show_command_line(std::string_view text) noexcept;

}  // namespace weft::tools
