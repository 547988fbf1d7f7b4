// tools/launch/fabric_setup.h -- the surroundings of a fabric's processes: state directory with lock, LIDs
// and keys, network namespaces, interfaces and their descriptors. Made before the processes start, removed
// after they have ended.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "tools/launch/interface_keeper.h"
#include "tools/launch/net_setup.h"
#include "tools/launch/node_process.h"
#include "tools/launch/state_dir.h"
#include "tools/topology/topology.h"

namespace weft::tools {

/// Bytes that the file system of the state directory needs for a fabric.
[[nodiscard]] size_t state_bytes_needed(const Topology& topology);

/// Owner: the launcher's thread.
class FabricSetup {
 public:
  /// `topology_path` and `ends_unused` only go into the record.
  FabricSetup(Topology topology, std::string topology_path, bool ends_unused)
      : topology_(std::move(topology)), topology_path_(std::move(topology_path)), ends_unused_(ends_unused) {}

  /// Takes the lock, cleans up after an earlier run, and checks the limits of descriptors and disk space
  /// before anything is made.
  Status claim();
  /// Makes everything, and for each node a process that is ready to be started. All processes inherit
  /// `lifeline`.
  Status make(int lifeline, LogLevel log_level, std::vector<NodeProcess>& nodes);
  /// Writes the record of processes and borrowed interfaces to disk, so that the next start can clean up. If
  /// there is no space, the old record stays and unsaved() is true until a later call succeeds.
  void save(const std::vector<NodeProcess>& nodes, bool ready);
  [[nodiscard]] bool unsaved() const noexcept { return unsaved_; }
  /// Removes interfaces, namespaces and runtime files; the processes must have ended. Does nothing without
  /// claim().
  void release();

  [[nodiscard]] bool claimed() const noexcept { return dir_.has_value(); }
  [[nodiscard]] const std::vector<FaultOrder>& faults() const noexcept { return topology_.faults; }
  [[nodiscard]] const std::string& fabric() const noexcept { return topology_.fabric; }
  [[nodiscard]] const std::string& state_path() const { return dir_->path(); }
  /// Valid after claim().
  [[nodiscard]] const StateDir& dir() const { return *dir_; }
  [[nodiscard]] InterfaceKeeper& interfaces() { return *keeper_; }

 private:
  [[nodiscard]] Status check_room() const;
  Status write_lids();
  [[nodiscard]] Status write_allow_files() const;
  Result<int> netns_fd(const std::string& name, const std::vector<NodeProcess>& nodes);
  Status add_node(NodeCommand command, int lifeline, std::vector<NodeProcess>& nodes);

  Topology topology_;
  std::string topology_path_;
  bool ends_unused_;
  std::optional<StateDir> dir_;
  std::map<std::string, std::unique_ptr<NetNamespace>> namespaces_;
  std::optional<InterfaceKeeper> keeper_;
  std::vector<RecordedInterface> interfaces_;
  std::map<std::string, Lid> lids_;
  bool unsaved_ = false;
};

}  // namespace weft::tools
