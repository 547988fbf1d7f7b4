// verbs/c_call.h -- what every exported function needs: C linkage, visibility, and a guard against
// exceptions.
#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>

#include "base/cancel_shield.h"
#include "messages/failure.h"

#define WEFT_VERBS_API extern "C" __attribute__((visibility("default")))

namespace weft::verbs {

/// For calls that return an errno value: sets errno too.
inline int fail(int error) noexcept {
  if (error != 0) errno = error;
  return error;
}
inline int fail(Reason why) noexcept {
  return fail(errno_of(why));
}
/// For calls that return -1 and set errno.
inline int failed(int error) noexcept {
  errno = error;
  return -1;
}
/// For calls that return a null pointer and set errno.
inline decltype(nullptr) no_object(int error) noexcept {
  errno = error;
  return nullptr;
}

/// Calls `call()`. If it throws, sets errno to ENOMEM and returns `failed`.
template <class Call, class T>
auto no_throw(T failed, Call&& call) noexcept -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception&) {
    errno = ENOMEM;
    return failed;
  }
}

/// Like no_throw(), for calls that may enter the kernel: the shield keeps them from being cancellation
/// points. Post and poll do not use it; hca/device_core.cc shields their system calls.
template <class Call, class T>
auto guarded(T failed, Call&& call) noexcept -> decltype(call()) {
  const CancelShield shield;
  return no_throw(failed, call);
}

/// Calls `undo` when the scope ends, also by an exception, unless dismiss() was called.
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
