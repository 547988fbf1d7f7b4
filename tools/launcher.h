// tools/launcher.h -- runs a topology: prepares interfaces, starts the processes, watches them, restarts what
// dies and takes everything down again. One thread; signals arrive through a descriptor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "tools/topology.h"

namespace weft::tools {

struct LauncherOptions {
  std::string topology_path;  // for the record
  LogLevel log_level = LogLevel::kInfo;
  Duration ready_timeout = std::chrono::seconds(15);  // until every session is open
  bool restart = true;                                // what dies
  bool live = false;                                  // redraw a table on the terminal
  bool quiet = false;                                 // no progress lines
};

class Launcher {
 public:
  Launcher(Topology topology, LauncherOptions options);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Takes the lock, cleans up after an earlier run, opens interfaces and starts everything. Blocks SIGINT,
  /// SIGTERM and SIGCHLD in this thread from here on. On failure nothing is left running.
  Status start();
  /// Waits until every process is ready; false and a line per laggard in `why` after the timeout or a stop
  /// signal.
  Status wait_ready();
  /// Watches until SIGINT or SIGTERM; `step` is called about every 50 ms and ends the run by returning false.
  void watch(const std::function<bool()>& step = {});
  /// Ends hosts, units, switches in this order, removes interfaces and runtime files. Also done by the
  /// destructor.
  void stop();

  /// True once SIGINT or SIGTERM came.
  [[nodiscard]] bool stop_requested() const;
  [[nodiscard]] const std::string& state_path() const;
  /// Pid of a node's process now; 0 while it is down.
  [[nodiscard]] int pid_of(const std::string& node) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::tools
