// base/rng.h -- random numbers are injected (decisions 5.2): the simulator hands in a seeded source and a run
// replays exactly; processes hand in the kernel's. No std::*_distribution, whose results differ by library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// A source of uniformly distributed 64-bit values. One owner thread.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  [[nodiscard]] virtual uint64_t next() noexcept = 0;

  /// Uniform in [0, bound); 0 when bound is 0.
  [[nodiscard]] uint64_t below(uint64_t bound) noexcept;
  /// True in `parts` of a million draws.
  [[nodiscard]] bool chance_ppm(uint32_t parts) noexcept { return parts != 0 && below(1'000'000) < parts; }
  void fill(std::span<std::byte> out) noexcept;
};

/// xoshiro256** seeded through splitmix64: the same seed gives the same sequence everywhere.
class SeededRandom final : public RandomSource {
 public:
  explicit SeededRandom(uint64_t seed) noexcept;
  [[nodiscard]] uint64_t next() noexcept override;

 private:
  std::array<uint64_t, 4> state_;
};

/// The kernel's generator (getrandom), read in blocks. Aborts if the kernel cannot give entropy.
class SystemRandom final : public RandomSource {
 public:
  [[nodiscard]] uint64_t next() noexcept override;

 private:
  std::array<uint64_t, 32> block_{};
  size_t used_ = block_.size();
};

}  // namespace weft
