#include "verbs/call_lock.h"

#include "verbs/c_call.h"
#include "verbs/process/open_device.h"

namespace weft::verbs {

bool CallLock::wait(const char* call, const LockedObject& of) noexcept {
  if (in_child(of.context)) return false;
  if (lock_.lock_within_a_second()) return true;
  guarded(0, [&] {
    explain("{}: {} {:#x}: waits until the batch of another ibv_wr_start() or ibv_start_poll() ends", call,
            of.kind, of.number);
    return 0;
  });
  while (!lock_.lock_within_a_second()) {
  }
  return true;
}

}  // namespace weft::verbs
