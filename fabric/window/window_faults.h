// fabric/window/window_faults.h -- faults on demand of a program's memory windows: rules that decide about
// each DMA request that moves data. docs/faults.md, "Memory windows".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "base/result.h"
#include "base/rng.h"
#include "messages/fault_rule.h"

namespace weft::fabric {

/// Of one program.
inline constexpr size_t kWindowFaultsMax = 8;

/// A rule in force and its counts of DMA requests.
struct WindowFault {
  uint32_t id = 0;
  FaultRule rule;
  Instant began{};
  uint64_t matched = 0;
  uint64_t struck = 0;
  SeededRandom random{1};

  /// Time that a rule with a duration has left; 0 for others.
  [[nodiscard]] Duration left(Instant now) const noexcept {
    return rule.lasts == Duration{} ? Duration{} : std::max(began + rule.lasts - now, Duration{});
  }
};

/// A rule on a stats page; kNumber 0: no rule.
enum class WindowFaultGauge : uint8_t { kNumber, kStruck, kCount };
[[nodiscard]] constexpr CounterNames<WindowFaultGauge> counter_labels(WindowFaultGauge /*of*/) noexcept {
  return {"number", "struck"};
}

/// Owner: the thread of the windows. judge() and cuts() do not allocate.
class WindowFaults {
 public:
  WindowFaults() { rules_.reserve(kWindowFaultsMax); }
  /// Whether a rule means something for windows. The error says what does not: a window has no lanes, no
  /// operations of cells and no cells.
  static Status check(const FaultRule& rule);

  /// @return the rule's number, from 1. Fails when check() fails or kWindowFaultsMax rules are in force.
  Result<uint32_t> add(const FaultRule& rule, Instant now);
  /// Removes a rule, all with 0. False when there is no rule with this number.
  bool remove(uint32_t id) noexcept;
  [[nodiscard]] std::span<const WindowFault> rules() const noexcept { return rules_; }

  enum class Verdict : uint8_t {
    kPass,
    kHold,  // until `due`, or kNever: while cuts() is true
    kFail,
  };
  struct Judgement {
    Verdict verdict = Verdict::kPass;
    Instant due{};
  };
  /// Decides about one DMA request that moves data. The first rule that strikes decides.
  [[nodiscard]] Judgement judge(Instant now) noexcept;
  /// A cut is in force, or the second time of a flap.
  [[nodiscard]] bool cuts(Instant now) const noexcept;
  /// The same, of rules that hold for both directions: peers move nothing into this program either.
  [[nodiscard]] bool cuts_both_ways(Instant now) const noexcept;
  /// When cuts() may change by itself.
  [[nodiscard]] Instant next_change(Instant now) const noexcept;

  /// Counts and numbers for a stats page, in the order of rules().
  [[nodiscard]] CounterSet<WindowFaultGauge>& shown(size_t place) noexcept { return shown_.at(place); }

 private:
  void show() noexcept;

  std::vector<WindowFault> rules_;
  std::array<CounterSet<WindowFaultGauge>, kWindowFaultsMax> shown_;
  uint32_t next_id_ = 1;
};

}  // namespace weft::fabric
