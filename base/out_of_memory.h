// base/out_of_memory.h -- turns std::bad_alloc into a return value, for code that must not throw: into a
// stock program, or in a turn of a core.
#pragma once

#include <new>
#include <utility>

#include "base/result.h"

namespace weft {

/// Calls `work`, which must have no effect if it throws. @return false if there was no memory
template <class Work>
[[nodiscard]] bool with_memory(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

/// The status that `work` returns; an Error if there was no memory for it. `work` as above.
template <class Work>
[[nodiscard]] Status status_with_memory(Work&& work) noexcept {
  Status status = Error{"out of memory"};  // so short that std::string needs none
  (void)with_memory([&] { status = std::forward<Work>(work)(); });
  return status;
}

}  // namespace weft
