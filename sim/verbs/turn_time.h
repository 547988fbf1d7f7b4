// sim/verbs/turn_time.h -- CPU time of one turn of an adapter, and its limit.
#pragma once

#include <chrono>
#include <ctime>

#include "base/clock.h"

namespace weft::sim::verbs {

/// Limit of the CPU time of one turn. A longer turn blocks every thread of the program.
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
