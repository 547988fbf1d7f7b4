// tools/launch/fabric_users.h -- tracks the users of a fabric that ends with its last user, by a FIFO in the
// state directory. A user holds the write end open, and all programs that it starts inherit it. The kernel
// tells the launcher when the last copy is closed, even if its holder was killed.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// The launcher's side. The FIFO is removed together with the other runtime files.
class FabricUsers {
 public:
  static Result<FabricUsers> create(const StateDir& dir);

  /// Descriptor for poll(): POLLHUP once the last user has gone, not before the first user has come.
  [[nodiscard]] int fd() const noexcept { return reader_.get(); }
  /// Renames the FIFO; if a program has opened it meanwhile, renames it back. True when the fabric may end,
  /// because no program can join it any more.
  [[nodiscard]] bool end_if_unused() noexcept;

 private:
  explicit FabricUsers(std::string path) : path_(std::move(path)) {}
  std::string path_;
  UniqueFd reader_;
};

enum class UserEntry : uint8_t {
  kJoined,
  kEnding,  // ending, or just starting: try again soon
  kNoDoor,  // this fabric ends only by `weft down`
};
/// Becomes a user of a running fabric. `use` is the descriptor to hold; it stays open over exec().
[[nodiscard]] UserEntry enter_fabric(const StateDir& dir, const RunRecord& record, UniqueFd& use);

}  // namespace weft::tools
