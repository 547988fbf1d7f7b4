// hca/answer.h -- the answers of the calls of hca/.
#pragma once

#include "base/refusal.h"
#include "messages/failure.h"

namespace weft::hca {

/// kOk, or why the call was refused; errno_of() (messages/failure.h) has the errno for a C program.
using Answer = Reason;

/// Result of a call that makes an object: the object, or the refusal.
template <class T>
struct Made {
  Made(T* made) noexcept : object(made) {}  // NOLINT(google-explicit-constructor): return object;
  Made(const Refusal& why) noexcept
      : refusal(why) {}  // NOLINT(google-explicit-constructor): return Refusal{};
  [[nodiscard]] Answer answer() const noexcept { return refusal.reason(); }

  T* object = nullptr;
  Refusal refusal;
};

}  // namespace weft::hca
