// base/loop_runner.h -- drives cores: poll all, and when nothing is left to do sleep until a descriptor or a
// deadline wakes us. A wake-up across cores costs 25 us, so while traffic flows the loop spins a while before
// it sleeps (decisions 5.5): traffic is work that has gone on for some time, not the one message or the timer
// that an idle fabric has twice a second. When sched_yield() comes back late, somebody needs the core and the
// loop sleeps sooner.
#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/pollable.h"

namespace weft {

struct LoopConfig {
  Duration spin = std::chrono::milliseconds(2);  // after the last work of traffic
  // Work that has gone on for so long is traffic, and stays it until a pause as long: one late packet among
  // many, for which the loop has slept already, does not make the next ones wait for a wake-up.
  Duration traffic = std::chrono::milliseconds(8);
  Duration sleep_max = std::chrono::milliseconds(500);  // a lost wake-up costs at most this
  Duration stall = std::chrono::milliseconds(10);       // a turn longer than this is counted
  Duration yield_late = std::chrono::microseconds(50);  // a yield longer than this shortens the window
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
  void note_work(Instant now) noexcept;
  void idle(Instant now);
  void sleep(Instant now);

  const Clock& clock_;
  LoopConfig config_;
  std::vector<Pollable*> cores_;
  std::vector<pollfd> fds_;
  std::atomic<bool> stopped_{false};
  Instant busy_from_ = kNever;  // first work after a pause of at least `traffic`
  Instant worked_at_ = kNever;  // the last work
  Instant idle_from_ = kNever;  // when work ran out
  Duration penalty_{};          // of late yields since then
  CounterSet<LoopCounter> counters_;
};

/// "No core in particular" where a core is asked for.
inline constexpr uint32_t kAnyCore = UINT32_MAX;
/// Highest core number that can be asked for.
inline constexpr uint32_t kCoreMax = 1023;

/// Runs the calling thread on this core only; kAnyCore leaves it free. False: not a core the thread may use.
bool bind_to_core(uint32_t core) noexcept;

}  // namespace weft
