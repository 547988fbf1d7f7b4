// sim/verbs/turn_time.h -- how long one turn of an adapter takes in the processor, and how long it may.
#pragma once

#include <chrono>
#include <ctime>

#include "base/clock.h"

namespace weft::sim::verbs {

/// A turn of an adapter that takes more CPU time than this holds up every thread of its program.
#ifdef NDEBUG
inline constexpr Duration kTurnMost = std::chrono::milliseconds(5);
#else
inline constexpr Duration kTurnMost = std::chrono::milliseconds(200);
#endif

/// CPU time of this thread.
[[nodiscard]] inline Duration cpu_time() noexcept {
  timespec spent{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

}  // namespace weft::sim::verbs
