// base/latency_histogram.h -- counts durations in buckets whose width is 1/32 of their value: percentiles
// within 3 %, 8 KiB, no allocation, deterministic.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

class LatencyHistogram {
 public:
  void add(uint64_t ns) noexcept {
    ++buckets_[bucket_of(ns)];
    ++count_;
    if (ns > max_ns_) max_ns_ = ns;
    if (ns < min_ns_) min_ns_ = ns;
  }
  void clear() noexcept { *this = LatencyHistogram(); }
  [[nodiscard]] uint64_t count() const noexcept { return count_; }
  [[nodiscard]] uint64_t max_ns() const noexcept { return max_ns_; }
  [[nodiscard]] uint64_t min_ns() const noexcept { return count_ == 0 ? 0 : min_ns_; }
  /// Upper edge of the bucket that holds the value at `per_mille` of a thousand, never above the largest
  /// value seen; 0 when nothing was added.
  [[nodiscard]] uint64_t percentile_ns(uint32_t per_mille) const noexcept {
    if (count_ == 0) return 0;
    const uint64_t rank = (count_ * per_mille + 999) / 1000;
    uint64_t seen = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      seen += buckets_[i];
      if (seen >= rank && seen != 0) return upper_edge(i) < max_ns_ ? upper_edge(i) : max_ns_;
    }
    return max_ns_;
  }

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr uint64_t kSub = 1U << kSubBits;
  static constexpr size_t kBuckets = 32 * kSub;  // up to 2^36 ns = 68 s

  static constexpr size_t bucket_of(uint64_t ns) noexcept {
    if (ns < kSub) return static_cast<size_t>(ns);
    const auto top = static_cast<unsigned>(std::bit_width(ns)) - 1;
    const size_t bucket = (top - kSubBits + 1) * kSub + static_cast<size_t>((ns >> (top - kSubBits)) - kSub);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static constexpr uint64_t upper_edge(size_t bucket) noexcept {
    if (bucket < kSub) return bucket;
    const uint64_t shift = bucket / kSub - 1;
    return ((bucket % kSub + kSub + 1) << shift) - 1;
  }

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ns_ = 0;
  uint64_t min_ns_ = UINT64_MAX;
};

}  // namespace weft
