#include "tools/launch/fabric_end.h"

#include <signal.h>

#include <chrono>
#include <thread>

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

bool launcher_runs(const RunRecord& record) {
  return is_running(record.launcher, record.launcher_ticks);
}

}  // namespace

FabricEnd end_fabric(StateDir& dir, Duration patience) {
  const MonotonicClock clock;
  const Instant end = clock.now() + patience;
  RunRecord record;
  bool seen = false;
  do {
    if (!seen) {
      record = dir.load();
      seen = launcher_runs(record);
      if (seen) signal_recorded(record.launcher, record.launcher_ticks, SIGTERM);
    }
    if (!dir.locked()) break;
    // Its end released the lock, so the lock is another launcher's, which may have waited for it, or that of
    // another `weft down`, which cleans up.
    if (seen && !launcher_runs(record) && launcher_runs(dir.load())) break;
    std::this_thread::sleep_for(10ms);
  } while (clock.now() < end);
  if (dir.lock().ok()) return FabricEnd::kEnded;
  if (!seen) return FabricEnd::kHidden;
  return launcher_runs(record) ? FabricEnd::kStays : FabricEnd::kReplaced;
}

}  // namespace weft::tools
