// tools/fabric_users.h -- who uses a fabric that ends with its last user. A FIFO in the state directory: a
// user holds its write end open and hands it on to everything it starts, and the kernel tells the launcher
// when the last copy is closed, however its holders ended.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// The launcher's side. The FIFO goes with the other runtime files.
class FabricUsers {
 public:
  static Result<FabricUsers> create(const StateDir& dir);

  /// Readable as poll() has it: POLLHUP when the last user has gone, and not before there was one.
  [[nodiscard]] int fd() const noexcept { return reader_.get(); }
  /// Closes the door, and opens it again if a program has come meanwhile. True when the fabric may end: no
  /// program can join it any more.
  [[nodiscard]] bool end_if_unused() noexcept;

 private:
  explicit FabricUsers(std::string path) : path_(std::move(path)) {}
  std::string path_;
  UniqueFd reader_;
};

enum class UserEntry : uint8_t {
  kJoined,
  kEnding,  // or just beginning: look again in a moment
  kNoDoor,  // this fabric ends by `weft down`, with or without users
};
/// Becomes a user of a running fabric; `use` is what to hold. It is kept over exec().
[[nodiscard]] UserEntry enter_fabric(const StateDir& dir, const RunRecord& record, UniqueFd& use);

}  // namespace weft::tools
