// tools/launch/fabric_choice.h -- chooses the fabric for a command without --fabric.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Kinds of fabrics that a command accepts.
enum class Among : uint8_t {
  kRunning,
  kLeft,  // also fabrics whose launcher was killed and that were not cleaned up
  kSeen,  // also ended fabrics, whose logs remain
};

/// The fabrics of this user, from one walk over their state directories. Each directory is opened once, and
/// choose() returns the directory that was looked at.
class SeenFabrics {
 public:
  /// Fails when the directory above all state directories is refused.
  static Result<SeenFabrics> look();

  /// Sorted names of the first kind that has any: running, left behind, seen. Fails when there is none and a
  /// state directory was refused.
  [[nodiscard]] Result<std::vector<std::string>> found(Among among) const;
  [[nodiscard]] bool any_runs() const;
  /// The running fabric that a command without --fabric means: the only one, or the only one of `weft up`.
  /// Fabrics that `weft run` started end with their programs and count only if there is no other. Empty when
  /// there is none or the choice is not unique.
  [[nodiscard]] std::string meant() const;
  /// Running fabrics that `weft up` has started.
  [[nodiscard]] std::vector<std::string> staying() const;
  /// meant(), else the only fabric that is left behind, else the latest of those seen. Fails with a list if
  /// the choice is not unique. Call only once: the directory is moved out.
  [[nodiscard]] Result<StateDir> choose(Among among);

 private:
  struct Seen {
    StateDir dir;
    bool runs = false;         // its launcher holds the lock
    bool left = false;         // its record lists processes
    bool ends_unused = false;  // tools/launch/fabric_users.h
    uint64_t started_us = 0;
  };
  SeenFabrics() = default;
  template <class Wanted>
  [[nodiscard]] std::vector<std::string> names(Wanted wanted) const;
  [[nodiscard]] std::string latest() const;

  std::vector<Seen> all_;
  std::string refusal_;  // reason why the first refused directory was refused; empty: none was
};

}  // namespace weft::tools
