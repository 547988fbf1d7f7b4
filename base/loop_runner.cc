// How it works: a turn reads the clock once and polls every core. While traffic flows, turns that found
// little or no work yield or poll again at once (base/yield_policy.h); the duration of a yield shows whether
// another thread wants the CPU. After the spin window, or at once if the last work was no traffic,
// prepare_sleep() of every core tells its peers that a wake-up is needed and checks for work once more. If a
// core finds work, all of them finish_sleep() and the loop goes on; otherwise ppoll() waits for the earliest
// deadline. No wake-up is lost, because a peer publishes its work before it checks whether we sleep.
#include "base/loop_runner.h"

#include <sched.h>

#include <algorithm>

namespace weft {

static_assert(kCoreMax == CPU_SETSIZE - 1);

bool bind_to_core(uint32_t core) noexcept {
  if (core == kAnyCore) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

LoopRunner::LoopRunner(const Clock& clock, const LoopConfig& config)
    : clock_(clock), config_(config), spin_(config.spin), yield_(config.yield) {}

void LoopRunner::run() {
  while (!stopped_.load(std::memory_order_relaxed)) turn();
}

int LoopRunner::turn() {
  const Instant now = clock_.now();
  end_working_turn(now);
  int work = 0;
  for (Pollable* core : cores_) work += core->poll(now);
  counters_.add(LoopCounter::kTurns);
  if (work != 0) {
    worked_from_ = now;
    counters_.add(LoopCounter::kWorkingTurns);
    spin_.worked(now, work);
    yield_.worked(now);
    if (spin_.yields_at_once(now, work)) share_core(clock_.now());
    return work;
  }
  idle(now);
  return 0;
}

/// A turn with work ends where the next turn or a yield begins: both read the clock anyway.
void LoopRunner::end_working_turn(Instant now) noexcept {
  if (now - worked_from_ > config_.stall) counters_.add(LoopCounter::kStalls);
  worked_from_ = kNever;
}

void LoopRunner::idle(Instant now) {
  if (!spin_.yields(now)) {
    sleep(now);
    return;
  }
  share_core(now);
}

/// @param from  now, or just before
void LoopRunner::share_core(Instant from) {
  if (!yield_.yields(from)) return;
  end_working_turn(from);
  sched_yield();
  counters_.add(LoopCounter::kYields);
  const Instant back = clock_.now();
  yield_.yielded(from, back);
  if (spin_.yielded(from, back)) counters_.add(LoopCounter::kLateYields);
}

void LoopRunner::sleep(Instant now) {
  size_t prepared = 0;
  bool quiet = true;
  while (quiet && prepared < cores_.size()) quiet = cores_[prepared++]->prepare_sleep();
  if (quiet) {
    fds_.clear();
    Instant due = now + config_.sleep_max;
    for (const Pollable* core : cores_) {
      core->wait_fds(fds_);
      due = std::min(due, core->deadline());
    }
    // Instant::min() stands for "at once": it must not be subtracted from.
    const Instant then = clock_.now();
    const int64_t wait = due > then ? (due - then).count() : 0;
    const timespec timeout{wait / 1'000'000'000, wait % 1'000'000'000};
    counters_.add(LoopCounter::kSleeps);
    static_cast<void>(ppoll(fds_.data(), fds_.size(), &timeout, nullptr));
  }
  for (size_t i = 0; i < prepared; ++i) cores_[i]->finish_sleep();
}

}  // namespace weft
