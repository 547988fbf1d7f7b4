// base/loop_runner.h -- drives cores: polls all, and if there is no work sleeps until a descriptor or a
// deadline wakes it. While traffic flows it spins before it sleeps (base/spin_policy.h).
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/pollable.h"
#include "base/spin_policy.h"
#include "base/yield_policy.h"

namespace weft {

struct LoopConfig {
  SpinConfig spin;
  YieldConfig yield{.soon = std::chrono::nanoseconds(250)};
  Duration sleep_max = std::chrono::milliseconds(500);  // a lost wake-up costs at most this
  Duration stall = std::chrono::milliseconds(10);       // a turn with work longer than this is counted
};

enum class LoopCounter : uint8_t { kTurns, kWorkingTurns, kSleeps, kStalls, kYields, kLateYields, kCount };
[[nodiscard]] constexpr CounterNames<LoopCounter> counter_labels(LoopCounter /*of*/) noexcept {
  return {"turns", "working_turns", "sleeps", "stalls", "yields", "late_yields"};
}

/// Owner: the thread that calls run(). Only stop() may be called from elsewhere, signal handlers included.
class LoopRunner {
 public:
  /// `clock` must outlive the runner.
  explicit LoopRunner(const Clock& clock, const LoopConfig& config = {});
  /// Polled in the order added; must outlive the runner.
  void add(Pollable& core) { cores_.push_back(&core); }
  /// Until stop().
  void run();
  /// One turn, with spinning or sleeping when there is no work. Returns the work done.
  int turn();
  /// Makes run() return after the current turn; a sleeper notices at its next wake-up.
  void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] CounterSet<LoopCounter>& counters() noexcept { return counters_; }

 private:
  void end_working_turn(Instant now) noexcept;
  void idle(Instant now);
  void share_core(Instant from);
  void sleep(Instant now);

  const Clock& clock_;
  LoopConfig config_;
  std::vector<Pollable*> cores_;
  std::vector<pollfd> fds_;
  std::atomic<bool> stopped_{false};
  Instant worked_from_ = kNever;  // start of the turn with work that has not ended; kNever: none
  SpinPolicy spin_;
  YieldPolicy yield_;
  CounterSet<LoopCounter> counters_;
};

/// Any CPU core, in place of a core number.
inline constexpr uint32_t kAnyCore = UINT32_MAX;
/// Highest CPU core number that options accept.
inline constexpr uint32_t kCoreMax = 1023;

/// Binds the calling thread to this CPU core; kAnyCore binds it to none. False if the thread may not use the
/// core.
bool bind_to_core(uint32_t core) noexcept;

}  // namespace weft
