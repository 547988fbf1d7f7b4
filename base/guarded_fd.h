// base/guarded_fd.h -- a descriptor of Weft in a stock program. The program may close every descriptor it
// finds (closefrom(3), daemons) and then get the number for a file of its own. Each use off the hot path
// therefore first asks the kernel whether the number still means the same file.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.h"

namespace weft {

/// Any thread may ask. Weft's own processes skip the check (guard_descriptors()). The check cannot notice a
/// number that gets another file between check and use; the preloaded object (preload/), which is told each
/// number, keeps the program from closing it and hears when the program replaces it by dup2().
class GuardedFd {
 public:
  GuardedFd() = default;
  /// `kept`: the program does not know the number and has no reason to close it, so the preloaded object
  /// keeps it open.
  explicit GuardedFd(UniqueFd fd, bool kept = true) noexcept;
  GuardedFd(GuardedFd&& other) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept;
  /// Closes it if it is still ours.
  ~GuardedFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  /// False once the program has closed the descriptor. One system call.
  [[nodiscard]] bool is_ours() const noexcept;
  /// As is_ours(), for wake-ups, which must be quick: makes no system call for a number that the preloaded
  /// object keeps open.
  [[nodiscard]] bool can_wake() const noexcept { return (kept_ && is_still_kept()) || is_ours(); }
  /// Closes it if it is still ours.
  void reset() noexcept;

 private:
  [[nodiscard]] bool is_still_kept() const noexcept;

  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool kept_ = false;
};

/// Calls of the preloaded object; null if there is none.
struct DescriptorKeeper {
  /// Called when a GuardedFd begins (`ours` 1) and ends (0) to own a kept descriptor.
  void (*keep)(int descriptor, int ours) = nullptr;
  /// 0 once the program has put another file in the place of a kept descriptor. No system call.
  int (*keeps)(int descriptor) = nullptr;
};
/// Turns the checks on, for stock programs. Call it before the first GuardedFd is made.
void guard_descriptors(DescriptorKeeper keeper) noexcept;

}  // namespace weft
