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
  /// Adds `failed.N.*` to the page for each place; false when the page is full. Without a page no failures
  /// are kept. The page must outlive the table.
  bool publish(StatsPage& page);
  /// Shows the failure in place of the oldest one.
  void show(const Failure& failure) noexcept;

 private:
  std::unique_ptr<std::array<CounterSet<FailureGauge>, kFailuresShown>> places_;
  uint64_t shown_ = 0;
};

}  // namespace weft::hca
