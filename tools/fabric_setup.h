// tools/fabric_setup.h -- what a fabric has around its processes, made before they start and gone after they
// have ended: the state directory with its lock, LIDs and keys, network namespaces, interfaces and the
// descriptors of those.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "tools/interface_keeper.h"
#include "tools/net_setup.h"
#include "tools/node_process.h"
#include "tools/state_dir.h"
#include "tools/topology.h"

namespace weft::tools {

/// Owner: the launcher's thread.
class FabricSetup {
 public:
  /// `topology_path` and `ends_unused` are for the record.
  FabricSetup(Topology topology, std::string topology_path, bool ends_unused)
      : topology_(std::move(topology)), topology_path_(std::move(topology_path)), ends_unused_(ends_unused) {}

  /// Takes the lock, cleans up after an earlier run, and looks whether the fabric fits into what the user and
  /// the disk have left, before anything is made.
  Status claim();
  /// Makes everything, and a process that may be started for each node. `lifeline` is handed to all of them.
  Status make(int lifeline, LogLevel log_level, std::vector<NodeProcess>& nodes);
  /// What runs and what was borrowed, on the disk: the next start cleans up after us by it. A record for
  /// which there is no space is behind until it can be written.
  void save(const std::vector<NodeProcess>& nodes, bool ready);
  [[nodiscard]] bool unsaved() const noexcept { return unsaved_; }
  /// Gives up interfaces, namespaces and runtime files; the processes have ended. Nothing to do without
  /// claim().
  void release();

  [[nodiscard]] bool claimed() const noexcept { return dir_.has_value(); }
  [[nodiscard]] const std::vector<FaultOrder>& faults() const noexcept { return topology_.faults; }
  [[nodiscard]] const std::string& fabric() const noexcept { return topology_.fabric; }
  [[nodiscard]] const std::string& state_path() const { return dir_->path(); }
  /// Only after claim().
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
