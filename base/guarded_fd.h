// base/guarded_fd.h -- a descriptor of ours in a program that is not ours. The program may close every
// descriptor it finds (closefrom(3), daemons), and get the number back for a file of its own: each use off
// the hot path first asks whether the number is still the file that it was.
#pragma once

#include <sys/types.h>

#include "base/unique_fd.h"

namespace weft {

/// Any thread may ask. In processes of our own nothing is asked (guard_descriptors()). A number that the
/// program gives to another file between the question and the use is not noticed: the preloaded object
/// (preload/), which is told of each number, keeps the program from closing it.
class GuardedFd {
 public:
  GuardedFd() = default;
  /// `kept`: the program does not know the number, and has no reason to close it.
  explicit GuardedFd(UniqueFd fd, bool kept = true) noexcept;
  GuardedFd(GuardedFd&& other) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept;
  /// Closes it if it is still ours.
  ~GuardedFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  /// False once the program has closed the descriptor. One system call.
  [[nodiscard]] bool is_ours() const noexcept;
  /// As is_ours(), for wake-ups, which must be quick: what the preloaded object keeps open is not asked for.
  [[nodiscard]] bool can_wake() const noexcept { return kept_ ? valid() : is_ours(); }
  /// Closes it if it is still ours.
  void reset() noexcept;

 private:
  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool kept_ = false;
};

/// Is told of each kept descriptor that a GuardedFd begins (1) and ends (0) to own.
using DescriptorKeeper = void (*)(int descriptor, int ours);
/// This process is a program that is not ours: from now on each GuardedFd is asked for. `keeper` is null when
/// there is no preloaded object. Call it before the first is made.
void guard_descriptors(DescriptorKeeper keeper) noexcept;

}  // namespace weft
