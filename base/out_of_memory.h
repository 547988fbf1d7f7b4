// base/out_of_memory.h -- turns std::bad_alloc into a return value, for code that must not throw into a stock
// program.
#pragma once

#include <new>
#include <utility>

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

}  // namespace weft
