// hca/random_stock.h -- random numbers drawn beforehand: the kernel is asked for them by who does not hold
// the device's lock.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "base/fixed_ring.h"
#include "base/rng.h"

namespace weft::hca {

/// The numbers of a source in their order. Owner: the holder of the device's lock, except of draw().
class RandomStock final : public RandomSource {
 public:
  /// More than any call takes: a new chunk of keys takes 64, and a block for a window of type 2 is looked for
  /// in 128 places at most.
  static constexpr size_t kLow = 256;
  using Draw = std::array<uint64_t, kLow>;

  explicit RandomStock(RandomSource& source);

  /// The source's own next one when there is none left.
  [[nodiscard]] uint64_t next() noexcept override;
  [[nodiscard]] bool low() const noexcept { return numbers_.size() < kLow; }
  /// `flag` becomes true when it is low.
  void report_to(bool& flag) noexcept { low_ = &flag; }
  /// Any thread, at any time.
  [[nodiscard]] Draw draw() noexcept;
  /// Nothing of it is used when there are enough.
  void take(const Draw& drawn) noexcept;

 private:
  RandomSource& source_;
  std::mutex drawing_;
  FixedRing<uint64_t> numbers_;
  bool* low_ = nullptr;
};

}  // namespace weft::hca
