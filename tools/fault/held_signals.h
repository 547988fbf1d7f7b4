// tools/fault/held_signals.h -- a stretch of work that a signal of the terminal or of kill(1) must not cut
// short, because it has changed something that has to be changed back.
#pragma once

#include <signal.h>

#include "base/clock.h"

namespace weft::tools {

/// While it lives, SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGPIPE wait. Those that have come act when it ends,
/// as a rule by ending the process. Threads that are started meanwhile inherit the mask. One thread.
class HeldSignals {
 public:
  HeldSignals() noexcept;
  ~HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Waits for `time`, or until a signal comes that this process does not ignore; false then. SIGPIPE does
  /// not end the wait.
  bool wait(Duration time) noexcept;

 private:
  sigset_t before_{};
  sigset_t ending_{};
};

}  // namespace weft::tools
