// tools/launch/launcher.h -- runs a topology: starts the processes that FabricSetup has prepared, watches
// them, restarts those that die, and ends everything. One thread; signals arrive through a descriptor.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "control/control_client.h"
#include "tools/launch/fabric_setup.h"
#include "tools/launch/fabric_users.h"
#include "tools/launch/node_process.h"
#include "tools/show/live_view.h"
#include "tools/topology/topology.h"

namespace weft::tools {

struct LauncherOptions {
  std::string topology_path;  // for the record
  LogLevel log_level = LogLevel::kInfo;
  Duration ready_timeout = std::chrono::seconds(15);  // until every session is open
  bool restart = true;                                // restart processes that die
  bool ends_unused = false;                           // end one second after the last user has gone
  bool live = false;                                  // redraw a table on the terminal
  bool quiet = false;                                 // no progress lines
  bool detached = false;                              // no terminal: SIGHUP does not end the fabric
};

class Launcher {
 public:
  Launcher(Topology topology, LauncherOptions options)
      : options_(std::move(options)),
        setup_(std::move(topology), options_.topology_path, options_.ends_unused) {}
  ~Launcher() { stop(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Takes the lock, cleans up after an earlier run, opens interfaces and starts all processes. Blocks
  /// SIGINT, SIGTERM, SIGCHLD and SIGHUP in this thread from here on. After a failure call stop().
  Status start();
  /// Waits until every process is ready. Fails after the timeout, naming the processes that are not ready,
  /// and after a stop signal.
  Status wait_ready();
  /// Watches the processes until SIGINT or SIGTERM. `step` is called about every 50 ms and ends the run by
  /// returning false.
  void watch(const std::function<bool()>& step = {});
  /// Ends hosts, then units, then switches, and removes interfaces and runtime files. The destructor does so
  /// too.
  void stop();

  /// True once SIGINT, SIGTERM or a SIGHUP that counts has come.
  [[nodiscard]] bool stop_requested() const noexcept { return stop_requested_; }
  [[nodiscard]] const std::string& state_path() const { return setup_.state_path(); }
  /// Present process id of a node; 0 while it is down.
  [[nodiscard]] int pid_of(const std::string& node) const;

 private:
  Status catch_signals();
  [[nodiscard]] bool ends_us(int signal) const noexcept;
  void turn(Duration wait);
  [[nodiscard]] Duration until_due(Instant now, Duration wait);
  void reap();
  void mend_interfaces(Instant now);
  void restart_due(Instant now);
  void end_if_unused(Instant now);
  [[nodiscard]] bool has_guests();
  void ask_due(Instant now);
  void ask(NodeProcess& node, Instant now);
  void end_role(NodeRole role);
  void save() { setup_.save(nodes_, !starting_); }
  /// Sets the topology's faults whose time has come.
  Status set_faults(Instant now);
  /// After a switch was restarted and thus lost its rules: sets again the faults that were set before.
  Status set_faults_again(const std::string& node);
  Status set_fault(const FaultOrder& order, const std::string& only);
  [[nodiscard]] bool all_ready() const;
  [[nodiscard]] const NodeProcess* first_failure() const;
  [[nodiscard]] std::string laggards() const;
  /// Prints the text for the user and appends it to the node's log.
  void say(const NodeProcess& node, const std::string& text) const;
  void print(const std::string& text) const;

  LauncherOptions options_;
  FabricSetup setup_;
  std::vector<NodeProcess> nodes_;
  UniqueFd signals_;
  UniqueFd lifeline_in_;
  UniqueFd lifeline_out_;
  control::ControlClient client_;
  std::optional<FabricUsers> users_;
  Instant unused_until_ = kNever;  // time at which the unused fabric ends
  LiveView view_;
  size_t next_asked_ = 0;
  size_t next_fault_ = 0;                     // index of the topology's next fault
  Instant ready_at_{};                        // start of the faults' times
  std::map<std::string, pid_t> switch_pids_;  // processes of the switches whose faults are set
  bool stop_requested_ = false;
  bool starting_ = true;
};

}  // namespace weft::tools
