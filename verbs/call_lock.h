// verbs/call_lock.h -- the lock that a program holds between two calls: from ibv_wr_start() to
// ibv_wr_complete() or ibv_wr_abort(), and from ibv_start_poll() to ibv_end_poll().
#pragma once

#include <infiniband/verbs.h>

#include "hca/device_lock.h"
#include "verbs/explain/explain.h"

namespace weft::verbs {

/// The QP or CQ of a call that takes its lock.
struct LockedObject {
  const char* kind;
  uint32_t number;
  ibv_context* context;
};

/// Belongs to a QP or CQ and not to a thread, like the spin locks of other providers: a language runtime may
/// move its caller to another thread between the two calls. A thread that begins twice deadlocks with itself;
/// with WEFT_DEBUG=verbs a line says so after one second.
class CallLock {
 public:
  /// Takes the lock. `call` and `of` appear in the explanation of a long wait. False in a child after fork()
  /// if a batch of the parent has the lock, which nothing releases there: do not call leave() then.
  [[nodiscard]] bool enter(const char* call, const LockedObject& of) noexcept {
    if (!needed_) return true;
    if (!lock_.is_taken() && lock_.lock_within_a_second()) [[likely]]
      return true;
    return wait(call, of);
  }
  void leave() noexcept { lock_.unlock(); }
  /// Not needed for an object in a thread domain: the program promises to use it from one thread (man
  /// ibv_wr_post).
  void set_needed(bool needed) noexcept { needed_ = needed; }

 private:
  [[gnu::cold]] bool wait(const char* call, const LockedObject& of) noexcept;

  hca::DeviceLock lock_;
  bool needed_ = true;
};

}  // namespace weft::verbs
