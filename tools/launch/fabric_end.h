// tools/launch/fabric_end.h -- ends a running fabric, as `weft down` does.
#pragma once

#include "base/clock.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

enum class FabricEnd : uint8_t {
  kEnded,     // `dir` has the lock now
  kReplaced,  // the fabric has ended, and another launcher, or a process that stays, holds the lock
  kStays,     // the launcher still holds the lock
  kHidden,    // the holder of the lock is not the recorded process, or runs in another namespace of processes
};
/// Sends SIGTERM to the launcher of the record and waits up to `patience` for its end. If the record does not
/// name a running process, as while a fabric starts, reads it again until it does. Of a launcher in
/// another namespace of processes the lock alone tells the end.
[[nodiscard]] FabricEnd end_fabric(StateDir& dir, Duration patience);

}  // namespace weft::tools
