// sim/verbs/nics.h -- each port of an adapter is a NIC of its own, and the first NIC has the program's keys:
// they move with the queue pairs (docs/key_migration.md).
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/key_directory.h"
#include "node/key_component.h"
#include "sim/verbs/model.h"

namespace weft::sim::verbs {

/// The NICs of one adapter and their program component. Outlives the adapter.
class Nics {
 public:
  /// @param first number of the first NIC, 0 to 15  @param ports 1 to 16
  Nics(uint32_t first, size_t ports) {
    constexpr uint32_t kStep = 5;  // odd, so that no number comes twice
    for (uint32_t i = 0; i < ports; ++i)
      numbers_.push_back(static_cast<uint8_t>((first + i * kStep) % adapter::kNicsMax));
  }
  [[nodiscard]] const std::vector<uint8_t>& numbers() const noexcept { return numbers_; }
  void join(adapter::ChannelAdapter& adapter) {
    if (adapter::NicKeys* keys = adapter.use_directory(component_); keys != nullptr) component_.serve(*keys);
  }
  void turn() {
    if (component_.has_work()) static_cast<void>(component_.poll());
  }

 private:
  std::vector<uint8_t> numbers_;
  node::KeyComponent component_;
};

inline void count_moves(const adapter::ChannelAdapter* adapter, Tally& tally) {
  if (adapter == nullptr) return;
  using adapter::AdapterCounter;
  const auto& counters = adapter->counters();
  tally("keys moved", counters.get(AdapterCounter::kKeysHandedOver));
  tally("keys moved and ended", counters.get(AdapterCounter::kKeysWithdrawn));
  tally("keys of no NIC", counters.get(AdapterCounter::kKeysInvalid));
  tally("searches for another way", counters.get(AdapterCounter::kWaySearches));
  tally("other way taken", counters.get(AdapterCounter::kWaysTaken));
  tally("peer followed to another way", counters.get(AdapterCounter::kWaysFollowed));
}

}  // namespace weft::sim::verbs
