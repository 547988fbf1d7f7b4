// base/cancel_shield.h -- pthread_cancel() of a program's thread inside a library call.
#pragma once

#include <pthread.h>

namespace weft {

/// While one lives, a cancellation of the calling thread waits: the thread passes cancellation points
/// (write(), close(), nanosleep()) unharmed. A cancellation unwinds the stack, which a noexcept function
/// answers with the end of the process. The calls that wait for events are the only ones that a
/// cancellation ends, as with rdma-core's.
class CancelShield {
 public:
  CancelShield() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancelShield() { pthread_setcancelstate(before_, nullptr); }
  CancelShield(const CancelShield&) = delete;
  CancelShield& operator=(const CancelShield&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace weft
