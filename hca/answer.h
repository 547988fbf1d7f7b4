// hca/answer.h -- what the calls of hca/ answer, and the errno that each answer is for a C program.
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
  kAgain,         // nothing there, and the descriptor does not wait
  kInterrupted,   // by a signal, while it waited
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

/// What a call makes: an object, or why there is none.
template <class T>
struct Made {
  T* object = nullptr;
  Answer answer = Answer::kOk;
};

}  // namespace weft::hca
