// hca/failure_table.h -- the latest failures of a device on its stats page, for `weft stat`. Internal to
// hca/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/counters.h"
#include "messages/failure.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::hca {

/// Owner: the holder of the device's lock.
class FailureTable {
 public:
  /// `failed.N.*` for each place. Nothing is kept without a page, which outlives the table; false when it is
  /// full.
  bool publish(StatsPage& page);
  /// Takes the place of the oldest.
  void show(const Failure& failure) noexcept;

 private:
  std::unique_ptr<std::array<CounterSet<FailureGauge>, kFailuresShown>> places_;
  uint64_t shown_ = 0;
};

}  // namespace weft::hca
