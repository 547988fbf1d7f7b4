// hca/random_reserve.h -- a stock of random numbers, drawn in advance: a thread draws them from the kernel
// without holding the device's lock.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "base/fixed_ring.h"
#include "base/rng.h"

namespace weft::hca {

/// Returns the numbers of a source in order. Owner: the holder of the device's lock, except for draw().
class RandomReserve final : public RandomSource {
 public:
  /// More numbers than any call takes: a new chunk of keys takes 64, and the search for a block for a window
  /// of type 2 tries at most 128 places.
  static constexpr size_t kLow = 256;
  using Draw = std::array<uint64_t, kLow>;

  explicit RandomReserve(RandomSource& source);

  /// When the stock is empty, draws from the source under the lock.
  [[nodiscard]] uint64_t next() noexcept override;
  [[nodiscard]] bool low() const noexcept { return numbers_.size() < kLow; }
  /// `flag` is set to true when the stock is low.
  void report_to(bool& flag) noexcept { low_ = &flag; }
  /// Draws kLow numbers from the source. Any thread, at any time.
  [[nodiscard]] Draw draw() noexcept;
  /// Adds `drawn` to the stock; ignores it if there is no room for it.
  void take(const Draw& drawn) noexcept;

 private:
  RandomSource& source_;
  std::mutex drawing_;
  FixedRing<uint64_t> numbers_;
  bool* low_ = nullptr;
};

}  // namespace weft::hca
