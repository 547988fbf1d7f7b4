// base/out_of_memory.h -- a shortage of memory as an answer instead of an exception, for code that may not
// throw within programs that are not ours.
#pragma once

#include <new>
#include <utility>

namespace weft {

/// Calls `work`, which leaves everything as it was when it throws. @return false when there was no memory
template <class Work>
[[nodiscard]] bool with_memory(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace weft
