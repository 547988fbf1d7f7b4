// verbs/c_call.h -- what every exported function has: C linkage, visibility, and nothing that is thrown
// through it.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <cstdint>
#include <exception>

#include "base/cancel_shield.h"
#include "hca/answer.h"

#define WEFT_VERBS_API extern "C" __attribute__((visibility("default")))

namespace weft::verbs {

/// An errno as most verbs return it, set as well.
inline int fail(int error) noexcept {
  if (error != 0) errno = error;
  return error;
}
inline int fail(hca::Answer answer) noexcept {
  return fail(hca::to_errno(answer));
}
/// For calls that return -1 and say why in errno.
inline int failed(int error) noexcept {
  errno = error;
  return -1;
}
/// For calls that return a pointer.
inline decltype(nullptr) no_object(int error) noexcept {
  errno = error;
  return nullptr;
}

/// Programs read how many events of an object they have acknowledged in its struct, under its mutex.
template <class C>
void count_acknowledged(C& object, uint32_t& field, uint32_t events) noexcept {
  pthread_mutex_lock(&object.mutex);
  field += events;
  pthread_cond_signal(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}

/// `call()`; ENOMEM, as errno and by `failed`, for what it throws.
template <class Call, class T>
auto no_throw(T failed, Call&& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception&) {
    errno = ENOMEM;
    return failed;
  }
}

/// The same for calls that may make system calls: they are no cancellation points. What post and poll need
/// of the kernel has a shield of its own (hca/device_core.cc).
template <class Call, class T>
auto guarded(T failed, Call&& call) noexcept -> decltype(call()) {
  const CancelShield shield;
  return no_throw(failed, call);
}

/// Calls `undo` at the end of its scope, which an exception may be, unless it was dismissed.
template <class Undo>
class UndoUnlessDone {
 public:
  explicit UndoUnlessDone(Undo undo) : undo_(undo) {}
  ~UndoUnlessDone() {
    if (!done_) undo_();
  }
  UndoUnlessDone(const UndoUnlessDone&) = delete;
  UndoUnlessDone& operator=(const UndoUnlessDone&) = delete;
  void dismiss() noexcept { done_ = true; }

 private:
  Undo undo_;
  bool done_ = false;
};

}  // namespace weft::verbs
