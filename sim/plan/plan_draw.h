// sim/plan/plan_draw.h -- draws the values of a plan from one stream of random numbers.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"
#include "base/rng.h"

namespace weft::sim {

/// Changing an earlier draw changes all later ones of the same stream.
class PlanDraw {
 public:
  explicit PlanDraw(uint64_t seed) noexcept : random_(seed) {}

  bool chance(uint64_t one_in) noexcept { return random_.below(one_in) == 0; }
  uint32_t below(uint64_t bound) noexcept { return static_cast<uint32_t>(random_.below(bound)); }
  /// Uniform; both ends are included.
  uint32_t between(uint32_t low, uint32_t high) noexcept { return low + below(uint64_t{high} - low + 1); }
  Duration between(Duration low, Duration high) noexcept {
    return low +
           Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>((high - low).count()) + 1)));
  }
  template <class T, size_t N>
  T pick(const std::array<T, N>& choices) noexcept {
    return choices[random_.below(N)];
  }

 private:
  SeededRandom random_;
};

}  // namespace weft::sim
