// base/clock.h -- time as the cores see it: handed in by the caller, never read by a core (house style 5,
// 17).
#pragma once

#include <chrono>
#include <cstdint>

namespace weft {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only

using Duration = std::chrono::nanoseconds;

/// Tag clock: time points of the fabric, real or virtual, in nanoseconds since an arbitrary start.
struct FabricClock {
  using rep = int64_t;
  using period = std::nano;
  using duration = Duration;
  using time_point = std::chrono::time_point<FabricClock, Duration>;
  static constexpr bool is_steady = true;
};
using Instant = FabricClock::time_point;

inline constexpr Instant kNever = Instant::max();

/// A loop's source of time. The loop reads it once per turn and passes it down.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const noexcept = 0;
};

/// CLOCK_MONOTONIC.
class MonotonicClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
  }
};

/// Virtual time: moves only when told.
class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const noexcept override { return now_; }
  void advance(Duration by) noexcept { now_ += by; }
  void set(Instant to) noexcept { now_ = to; }

 private:
  Instant now_{};
};

}  // namespace weft
