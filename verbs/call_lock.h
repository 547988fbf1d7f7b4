// verbs/call_lock.h -- the lock that a program holds from one call to another: ibv_wr_start() to
// ibv_wr_complete() or ibv_wr_abort(), ibv_start_poll() to ibv_end_poll().
#pragma once

#include "hca/engine_lock.h"
#include "verbs/explain.h"

namespace weft::verbs {

/// Belongs to a QP or CQ, and to no thread, as the spin locks of adapters' providers: a runtime may move a
/// program from one thread to another between the two calls. A thread that begins twice waits for itself;
/// WEFT_DEBUG=verbs says so after a second.
class CallLock {
 public:
  /// `call`, `object`, `number`: for the explanation.
  void enter(const char* call, const char* object, uint32_t number) noexcept {
    if (needed_ && !lock_.lock_within_a_second()) [[unlikely]]
      explain_and_wait(call, object, number);
  }
  void leave() noexcept { lock_.unlock(); }
  /// Not for an object of a thread domain: its program promises that one thread uses it (man ibv_wr_post).
  void set_needed(bool needed) noexcept { needed_ = needed; }

 private:
  [[gnu::cold]] void explain_and_wait(const char* call, const char* object, uint32_t number) noexcept;

  hca::EngineLock lock_;
  bool needed_ = true;
};

}  // namespace weft::verbs
