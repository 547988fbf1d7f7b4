// tools/state_dir.h -- where a running fabric keeps its sockets, stats pages, logs and the record of what it
// started: $XDG_RUNTIME_DIR/weft/FABRIC or /tmp/weft-UID/FABRIC, mode 0700. The launcher of the fabric holds
// a lock on it; the record lets the next start clean up after a launcher that was killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/net_setup.h"

namespace weft::tools {

/// One process that the launcher started. A pid alone may name another process later; with its start time it
/// is unique.
struct RecordedProcess {
  std::string name;
  std::string program;
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  uint32_t restarts = 0;
};

struct RecordedInterface {
  std::string name;
  std::string netns;  // empty: the launcher's own
};

/// The node for which a switch's port is.
struct RecordedPort {
  std::string node;  // the switch
  uint32_t number = 0;
  std::string peer;
};

/// The spare ports of a switch.
struct SpareRecord {
  std::string node;
  uint32_t ports = 0;
  uint32_t first_lid = 0;
  uint32_t lids = 0;  // from there on
};

struct RunRecord {
  pid_t launcher = 0;
  uint64_t launcher_ticks = 0;
  std::string topology;       // file it runs
  bool ready = false;         // every process has been ready once
  bool ends_unused = false;   // with its last user (tools/fabric_users.h)
  uint32_t cell_payload = 0;  // bytes, where they are not the default
  uint32_t flit_payload = 0;
  std::vector<RecordedProcess> processes;
  std::vector<RecordedInterface> interfaces;
  std::vector<RecordedPort> ports;
  std::vector<BorrowedInterface> borrowed;
  std::vector<SpareRecord> spare;
};

/// Start time of a process in clock ticks since boot; 0 when there is none of that number.
[[nodiscard]] uint64_t process_start_ticks(pid_t pid);
/// True while the process of the record, and not a later one of its number nor one of another user, runs
/// (zombies do not).
[[nodiscard]] bool is_running(pid_t pid, uint64_t start_ticks);
/// Sends a signal to the process of the record, if it still runs; to no other that gets its number meanwhile.
void signal_recorded(pid_t pid, uint64_t start_ticks, int signal);

/// True while a process is stopped by a signal or a debugger.
[[nodiscard]] bool is_stopped(pid_t pid);

class StateDir {
 public:
  /// The directory that holds all fabrics of this user; not created. WEFT_STATE_DIR overrides it.
  static std::string base() { return state_directory_base(); }
  /// Fabrics that have a state directory, sorted. Fails when the directory of all is not ours alone.
  static Result<std::vector<std::string>> fabrics();

  /// Creates the directory where it is missing; fails when it is not ours alone.
  static Result<StateDir> create(const std::string& fabric);
  /// Fails when there is none, or it is not ours alone: another user could have made it for us.
  static Result<StateDir> open(const std::string& fabric);

  [[nodiscard]] const std::string& fabric() const { return fabric_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Takes the lock for as long as the object lives. Fails when another launcher has it.
  Status lock();
  /// True when some launcher holds the lock.
  [[nodiscard]] bool locked() const;

  /// Fails unless the file system has room for `bytes` more bytes.
  [[nodiscard]] Status check_space(size_t bytes) const;
  /// Notes that a run begins now.
  [[nodiscard]] Status note_start() const;
  /// When the latest run began, in microseconds since 1970; 0 when that was never noted.
  [[nodiscard]] uint64_t started_us() const;

  /// Keeps the space of one further record, so that a disk that is full later does not keep the record from
  /// being right.
  Status save(const RunRecord& record) const;
  /// An empty record when there is none.
  [[nodiscard]] RunRecord load() const;

  /// The text of one of our files; empty when there is none, or it is not ours.
  [[nodiscard]] std::string text(const std::string& name) const;

  /// Removes sockets, pages, rings and the record; logs and LIDs stay.
  void remove_runtime_files() const;
  /// Removes everything.
  void remove_all() const;

 private:
  StateDir(std::string fabric, std::string path) : fabric_(std::move(fabric)), path_(std::move(path)) {}
  /// Opens base and directory, and makes what is missing where `makes` is true.
  static Result<StateDir> enter(const std::string& fabric, bool makes);

  std::string fabric_;
  std::string path_;
  UniqueFd base_;  // the directory of all fabrics
  UniqueFd at_;    // this one: files are opened from here, whatever becomes of the path
  UniqueFd lock_;
};

/// Ends what the record names and still runs -- first politely, then by force -- and removes what it left
/// behind. Only for the holder of the lock.
void clean_up_leftovers(const StateDir& dir, const RunRecord& record);

}  // namespace weft::tools
