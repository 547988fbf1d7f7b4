// fabric/switch/vl_arbiter.h -- which lane of an output sends next: InfiniBand's weighted high and low tables
// (O-08). Lane 15 goes before both. Within a table lanes take turns in table order, each for its weight in
// units of 64 bytes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "messages/ids.h"

namespace weft::fabric {

/// Bytes per unit of weight, as InfiniBand has it.
inline constexpr uint32_t kVlWeightBytes = 64;
/// Bytes of high-priority traffic per unit of the limit after which one low-priority cell may go.
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
  /// Refuses lanes beyond 14 and tables that are too long. A data lane in no table would never send: refused
  /// too.
  Status configure(const VlArbitration& tables, uint32_t lanes);

  struct Choice {
    VirtualLane vl;
    uint32_t bytes = 0;  // send at least one cell and stop once this much has gone
  };
  /// Chooses among the lanes in `ready` (bit per lane, not empty). Changes nothing: charge() does, for the
  /// winner only.
  [[nodiscard]] Choice choose(uint32_t ready) noexcept;
  /// `bytes` went out on the lane choose() named.
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
