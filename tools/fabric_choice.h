// tools/fabric_choice.h -- which fabric a command means that names none.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// Which fabrics a command is about.
enum class Among : uint8_t {
  kRunning,
  kLeft,  // also those whose launcher was killed and that were not cleaned up
  kSeen,  // also those that have ended: their logs stay
};

/// The fabrics of this user, from one walk over their state directories: each is opened once, and a command
/// that chooses among them goes on with the directory that it looked at.
class SeenFabrics {
 public:
  /// Fails when the directory of all fabrics is refused.
  static Result<SeenFabrics> look();

  /// Names, sorted, of the first kind of which there is any: running, left, seen. Fails when a state
  /// directory is refused and none is found.
  [[nodiscard]] Result<std::vector<std::string>> found(Among among) const;
  [[nodiscard]] bool any_runs() const;
  /// Of the fabrics that run, the one that a command without --fabric means: the only one, or the only one of
  /// `weft up` beside those that `weft run` started, which end with their programs. Empty when there is none
  /// or several could be meant.
  [[nodiscard]] std::string meant() const;
  /// meant(), else the only one that is left behind, else the latest of those seen. Fails with a list when
  /// that is not clear. Call it once: the directory is moved out.
  [[nodiscard]] Result<StateDir> choose(Among among);

 private:
  struct Seen {
    StateDir dir;
    bool runs = false;         // its launcher holds the lock
    bool left = false;         // its record names processes
    bool ends_unused = false;  // tools/fabric_users.h
    uint64_t started_us = 0;
  };
  SeenFabrics() = default;
  template <class Wanted>
  [[nodiscard]] std::vector<std::string> names(Wanted wanted) const;
  [[nodiscard]] std::string latest() const;

  std::vector<Seen> all_;
  std::string refusal_;  // why the first that may not be opened may not; empty: each may
};

}  // namespace weft::tools
