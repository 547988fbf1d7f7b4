// tools/launcher.h -- runs a topology: starts the processes in what FabricSetup has made for them, watches
// them, restarts what dies and takes everything down again. One thread; signals arrive through a descriptor.
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
#include "tools/fabric_setup.h"
#include "tools/fabric_users.h"
#include "tools/live_view.h"
#include "tools/node_process.h"
#include "tools/topology.h"

namespace weft::tools {

struct LauncherOptions {
  std::string topology_path;  // for the record
  LogLevel log_level = LogLevel::kInfo;
  Duration ready_timeout = std::chrono::seconds(15);  // until every session is open
  bool restart = true;                                // what dies
  bool ends_unused = false;                           // a second after its last user has gone
  bool live = false;                                  // redraw a table on the terminal
  bool quiet = false;                                 // no progress lines
  bool detached = false;                              // no terminal: a hang-up is no reason to end
};

class Launcher {
 public:
  Launcher(Topology topology, LauncherOptions options)
      : options_(std::move(options)),
        setup_(std::move(topology), options_.topology_path, options_.ends_unused) {}
  ~Launcher() { stop(); }
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Takes the lock, cleans up after an earlier run, opens interfaces and starts everything. Blocks SIGINT,
  /// SIGTERM and SIGCHLD in this thread from here on. On failure nothing is left running.
  Status start();
  /// Waits until every process is ready. Fails after the timeout, naming who is not, and after a stop signal.
  Status wait_ready();
  /// Watches until SIGINT or SIGTERM; `step` is called about every 50 ms and ends the run by returning false.
  void watch(const std::function<bool()>& step = {});
  /// Ends hosts, units, switches in this order, removes interfaces and runtime files. Also done by the
  /// destructor.
  void stop();

  /// True once SIGINT or SIGTERM came.
  [[nodiscard]] bool stop_requested() const noexcept { return stop_requested_; }
  [[nodiscard]] const std::string& state_path() const { return setup_.state_path(); }
  /// Pid of a node's process now; 0 while it is down.
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
  /// Sets the faults of the topology whose time has come.
  Status set_faults(Instant now);
  /// A switch was started anew, without rules: those that were set before, once more.
  Status set_faults_again(const std::string& node);
  Status set_fault(const FaultOrder& order, const std::string& only);
  [[nodiscard]] bool all_ready() const;
  [[nodiscard]] const NodeProcess* first_failure() const;
  [[nodiscard]] std::string laggards() const;
  /// To the caller's terminal, if there is one, and to the log of the node.
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
  Instant unused_until_ = kNever;  // the fabric has no user: it ends then
  LiveView view_;
  size_t next_asked_ = 0;
  size_t next_fault_ = 0;                     // of the topology
  Instant ready_at_{};                        // from which their times count
  std::map<std::string, pid_t> switch_pids_;  // whose faults are set
  bool stop_requested_ = false;
  bool starting_ = true;
};

}  // namespace weft::tools
