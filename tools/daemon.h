// tools/daemon.h -- a launcher without a terminal, and its word to whoever started it.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace weft::tools {

/// The daemon's word to the waiting starter: ready, or the reason why not. Without a starter it says nothing.
class DaemonReport {
 public:
  DaemonReport() = default;
  explicit DaemonReport(UniqueFd fd) : fd_(std::move(fd)) {}
  void ready() { send("r"); }
  void failed(const std::string& why) { send("e" + why); }

 private:
  void send(const std::string& text);
  UniqueFd fd_;
};

/// Forks a daemon: a session of its own, no descriptor but its report, standard ones at /dev/null.
/// @return true in the daemon, which has set `report`; false in the caller when the daemon is ready; in the
/// caller an error with the daemon's reason when it failed.
Result<bool> start_daemon(DaemonReport& report);

}  // namespace weft::tools
