// tools/launch/state_dir.h -- the state directory of a running fabric, with its sockets, stats pages, logs
// and the record of started processes: $XDG_RUNTIME_DIR/weft/FABRIC or /tmp/weft-UID/FABRIC, mode 0700. The
// fabric's launcher holds a lock in it. The record lets the next start clean up after a killed launcher.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/launch/net_setup.h"

namespace weft::tools {

/// One process that the launcher started. A pid may be reused; together with the start time it is unique.
struct RecordedProcess {
  std::string name;
  std::string program;
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  uint32_t restarts = 0;
};

struct RecordedInterface {
  std::string name;
  std::string netns;  // empty: the launcher's own namespace
};

/// A port of a switch and the node it is for.
struct RecordedPort {
  std::string node;  // name of the switch
  uint32_t number = 0;
  std::string peer;
};

/// The spare ports of a switch.
struct SpareRecord {
  std::string node;
  uint32_t ports = 0;
  uint32_t first_lid = 0;
  uint32_t lids = 0;  // number of LIDs from first_lid on
};

struct RunRecord {
  pid_t launcher = 0;
  uint64_t launcher_ticks = 0;
  std::string topology;       // path of the topology file
  bool ready = false;         // every process has been ready at least once
  bool ends_unused = false;   // ends with its last user (tools/launch/fabric_users.h)
  uint32_t cell_payload = 0;  // bytes; 0: the default
  uint32_t flit_payload = 0;
  bool direct = false;  // programs make memory windows between each other
  std::vector<RecordedProcess> processes;
  std::vector<RecordedInterface> interfaces;
  std::vector<RecordedPort> ports;
  std::vector<BorrowedInterface> borrowed;
  std::vector<SpareRecord> spare;
};

/// Start time of a process in clock ticks since boot; 0 when no process has this pid.
[[nodiscard]] uint64_t process_start_ticks(pid_t pid);
/// True while the recorded process runs. False for a zombie, for a later process with the same pid, and for a
/// process of another user.
[[nodiscard]] bool is_running(pid_t pid, uint64_t start_ticks);
/// Sends a signal to the recorded process if it still runs, and never to a later process with the same pid.
void signal_recorded(pid_t pid, uint64_t start_ticks, int signal);

/// True while a process is stopped by a signal or a debugger.
[[nodiscard]] bool is_stopped(pid_t pid);

class StateDir {
 public:
  /// The directory above all fabrics of this user; does not create it. WEFT_STATE_DIR overrides it.
  static std::string base() { return state_directory_base(); }
  /// What a command says that needs a running fabric and finds none of that name.
  static std::string not_running(const std::string& fabric);
  /// Fabrics that have a state directory, sorted. Fails when the directory above them does not belong to this
  /// user alone.
  static Result<std::vector<std::string>> fabrics();

  /// Creates the directory if it is missing. Fails when it does not belong to this user alone.
  static Result<StateDir> create(const std::string& fabric);
  /// Fails when the directory is missing or does not belong to this user alone: another user could have
  /// prepared it.
  static Result<StateDir> open(const std::string& fabric);

  [[nodiscard]] const std::string& fabric() const { return fabric_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Takes the lock for the life of this object. Fails when another launcher holds it.
  Status lock();
  /// True when a launcher holds the lock.
  [[nodiscard]] bool locked() const;

  /// Fails unless the file system has `bytes` bytes free.
  [[nodiscard]] Status check_space(size_t bytes) const;
  /// Records that a run begins now.
  [[nodiscard]] Status note_start() const;
  /// Start of the latest run in microseconds since 1970; 0 when it was never recorded.
  [[nodiscard]] uint64_t started_us() const;

  /// Writes the record and reserves the space of the next one, so that a disk that fills up later does not
  /// leave an outdated record.
  Status save(const RunRecord& record) const;
  /// Returns an empty record when there is none.
  [[nodiscard]] RunRecord load() const;

  /// Text of a file in this directory; empty when it is missing or belongs to another user.
  [[nodiscard]] std::string text(const std::string& name) const;

  /// Removes sockets, pages, rings and the record. Logs, LIDs and names stay.
  void remove_runtime_files() const;
  /// Removes everything.
  void remove_all() const;

 private:
  StateDir(std::string fabric, std::string path) : fabric_(std::move(fabric)), path_(std::move(path)) {}
  /// Opens both directories; if `makes` is true, creates missing ones.
  static Result<StateDir> enter(const std::string& fabric, bool makes);

  std::string fabric_;
  std::string path_;
  UniqueFd base_;  // the directory of all fabrics
  UniqueFd at_;    // this directory: files are opened relative to it, even if its path changes
  UniqueFd lock_;
};

/// Ends recorded processes that still run, by SIGTERM and then SIGKILL, and removes what they left. Only for
/// the holder of the lock.
void clean_up_leftovers(const StateDir& dir, const RunRecord& record);

}  // namespace weft::tools
