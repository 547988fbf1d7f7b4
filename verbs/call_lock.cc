#include "verbs/call_lock.h"

#include "verbs/c_call.h"

namespace weft::verbs {

void CallLock::explain_and_wait(const char* call, const char* object, uint32_t number) noexcept {
  guarded(0, [&] {
    explain("{}: {} {:#x}: waits until the batch of another ibv_wr_start() or ibv_start_poll() ends", call,
            object, number);
    return 0;
  });
  while (!lock_.lock_within_a_second()) {
  }
}

}  // namespace weft::verbs
