// How it works: each table keeps a position and the rest of that entry's weight. A ready lane with weight
// left continues. Otherwise the position moves to the next entry whose lane is ready, with its full weight.
// The high table goes before the low one. After high_limit x 4096 bytes of high traffic one low cell is sent
// if one waits.
#include "fabric/switch/vl_arbiter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace weft::fabric {

VlArbitration equal_arbitration(uint32_t lanes) {
  VlArbitration tables;
  // 128 x 64 bytes: two cells of 4 KiB per turn.
  for (uint32_t i = 0; i < lanes; ++i) tables.low.push_back({VirtualLane(static_cast<uint8_t>(i)), 128});
  return tables;
}

Status VlArbiter::configure(const VlArbitration& tables, uint32_t lanes) {
  uint32_t seen = 0;
  for (const std::vector<VlWeight>* entries : {&tables.high, &tables.low}) {
    if (entries->size() > kVlTableEntriesMax) return Error{"arbitration table longer than 64 entries"};
    for (const VlWeight& entry : *entries) {
      if (entry.vl.value() >= kVlManagement.value()) {
        return Error{fmt::format("lane {} in an arbitration table: choose 0 to 14", entry.vl.value())};
      }
      if (entry.weight != 0) seen |= lane_bit(entry.vl);
    }
  }
  const uint32_t wanted = (1U << lanes) - 1;
  if ((seen & wanted) != wanted) return Error{"a data lane is in no arbitration table and would never send"};
  const auto fill = [](Table& table, const std::vector<VlWeight>& entries) {
    table = Table{};
    for (const VlWeight& entry : entries) {
      if (entry.weight == 0) continue;
      table.entries.push_back(entry);
      table.lanes |= lane_bit(entry.vl);
    }
  };
  fill(high_, tables.high);
  fill(low_, tables.low);
  high_limit_ = tables.high_limit;
  high_left_bytes_ = int64_t{high_limit_} * kVlHighLimitBytes;
  chosen_ = nullptr;
  return {};
}

VlArbiter::Choice VlArbiter::choose_from(Table& table, uint32_t ready) noexcept {
  const auto is_ready = [ready](const VlWeight& entry) { return (ready >> entry.vl.value() & 1) != 0; };
  if (table.left_bytes <= 0 || !is_ready(table.entries[table.at])) {
    const auto count = static_cast<uint32_t>(table.entries.size());
    uint32_t next = table.at;
    // From the entry after the current one round to the current one: at least one entry is ready.
    for (uint32_t step = 1; step <= count; ++step) {
      next = table.at + step < count ? table.at + step : table.at + step - count;
      if (is_ready(table.entries[next])) break;
    }
    table.at = next;
    table.left_bytes = int64_t{table.entries[next].weight} * kVlWeightBytes;
  }
  return {table.entries[table.at].vl, static_cast<uint32_t>(table.left_bytes)};
}

VlArbiter::Choice VlArbiter::choose(uint32_t ready) noexcept {
  WEFT_DCHECK(ready != 0, "nothing to choose from");
  if ((ready >> kVlManagement.value() & 1) != 0) {
    chosen_ = nullptr;
    return {kVlManagement, kVlWeightBytes};
  }
  const bool low_waits = (ready & low_.lanes) != 0;
  const bool high_spent = high_limit_ != kVlHighLimitNone && high_left_bytes_ <= 0;
  if ((ready & high_.lanes) != 0 && !(low_waits && high_spent)) {
    chosen_ = &high_;
    return choose_from(high_, ready);
  }
  WEFT_DCHECK(low_waits, "a ready lane is in no table");
  chosen_ = &low_;
  Choice choice = choose_from(low_, ready);
  // If the low lane is chosen only because the high table has used up its limit, it gets one cell.
  if ((ready & high_.lanes) != 0) choice.bytes = 1;
  return choice;
}

void VlArbiter::charge(uint32_t bytes) noexcept {
  if (chosen_ == nullptr) return;
  chosen_->left_bytes -= bytes;
  if (chosen_ == &high_) {
    high_left_bytes_ -= bytes;
  } else {
    high_left_bytes_ = int64_t{high_limit_} * kVlHighLimitBytes;
  }
}

}  // namespace weft::fabric
