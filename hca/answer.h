// hca/answer.h -- the answers of the calls of hca/, and the errno of each answer for a C program.
#pragma once

#include <cstdint>
#include <string_view>

#include "adapter/verbs.h"

namespace weft::hca {

enum class Answer : uint8_t {
  kOk,
  kInvalid,       // an argument, attribute or state that does not fit
  kNoMemory,      // a limit of the adapter is reached, or a queue is full
  kBusy,          // other objects still use it
  kAgain,         // nothing is there, and the descriptor is O_NONBLOCK
  kInterrupted,   // a signal interrupted the wait
  kUnsupported,   // this device cannot do that
  kNoDescriptor,  // the process has no descriptor left
  kReentered,     // by a signal handler, which has interrupted another call of its thread on the device
  kForked,        // a child after fork(): the device belongs to its parent
  kCount
};
[[nodiscard]] std::string_view to_string(Answer answer) noexcept;
/// 0 for kOk.
[[nodiscard]] int to_errno(Answer answer) noexcept;

[[nodiscard]] Answer answer_of(adapter::PostResult result) noexcept;
[[nodiscard]] Answer answer_of(adapter::ModifyResult result) noexcept;

/// Result of a call that makes an object: the object, or the reason why there is none.
template <class T>
struct Made {
  T* object = nullptr;
  Answer answer = Answer::kOk;
};

}  // namespace weft::hca
