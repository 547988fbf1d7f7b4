// fabric/switch/vl_arbiter.h -- chooses the lane of an output that sends next, by InfiniBand's weighted high
// and low tables (O-08). Lane 15 goes before both. Within a table, lanes take turns in table order, each for
// its weight in units of 64 bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "messages/ids.h"

namespace weft::fabric {

/// Bytes per unit of weight, as in InfiniBand.
inline constexpr uint32_t kVlWeightBytes = 64;
/// Bytes of high-priority traffic per unit of `high_limit`. After them one low-priority cell may be sent.
inline constexpr uint32_t kVlHighLimitBytes = 4096;
inline constexpr uint32_t kVlHighLimitNone = 255;
inline constexpr uint32_t kVlTableEntriesMax = 64;

struct VlWeight {
  VirtualLane vl;
  uint8_t weight = 0;  // 0: skipped
};

struct VlArbitration {
  std::vector<VlWeight> high;  // goes before low
  std::vector<VlWeight> low;
  uint8_t high_limit = kVlHighLimitNone;
};
/// Every data lane in the low table with equal weight.
[[nodiscard]] VlArbitration equal_arbitration(uint32_t lanes);

/// Owner: the switch's thread.
class VlArbiter {
 public:
  VlArbiter() = default;
  /// Refuses lanes beyond 14, tables of more than 64 entries, and a data lane that is in no table, because
  /// that lane would never send.
  Status configure(const VlArbitration& tables, uint32_t lanes);

  struct Choice {
    VirtualLane vl;
    uint32_t bytes = 0;  // send at least one cell, and stop when this number of bytes has been sent
  };
  /// Chooses among the lanes in `ready` (one bit per lane, not empty). Only charge() takes weight, from the
  /// chosen lane.
  [[nodiscard]] Choice choose(uint32_t ready) noexcept;
  /// `bytes` bytes were sent on the lane that choose() named.
  void charge(uint32_t bytes) noexcept;

 private:
  struct Table {
    std::vector<VlWeight> entries;
    uint32_t at = 0;
    int64_t left_bytes = 0;  // of the entry at `at`
    uint32_t lanes = 0;      // bit per lane with weight
  };
  static Choice choose_from(Table& table, uint32_t ready) noexcept;

  Table high_;
  Table low_;
  Table* chosen_ = nullptr;  // null: lane 15
  int64_t high_left_bytes_ = 0;
  uint32_t high_limit_ = kVlHighLimitNone;
};

}  // namespace weft::fabric
