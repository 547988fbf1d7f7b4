#include "hca/failure_table.h"

#include <string>
#include <utility>

#include "base/stats_page.h"

namespace weft::hca {

bool FailureTable::publish(StatsPage& page) {
  auto places = std::make_unique<std::array<CounterSet<FailureGauge>, kFailuresShown>>();
  for (size_t i = 0; i < kFailuresShown; ++i) {
    if (!page.publish(failure_prefix(i), (*places)[i])) return false;
  }
  places_ = std::move(places);
  return true;
}

void FailureTable::show(const Failure& failure) noexcept {
  if (places_ == nullptr) return;
  CounterSet<FailureGauge>& place = (*places_)[shown_ % kFailuresShown];
  place.set(FailureGauge::kNumber, 0);  // a reader skips the place while its number is 0
  const FailureGauges values = gauges_of(failure, ++shown_);
  for (size_t i = 1; i < values.size(); ++i) place.set(static_cast<FailureGauge>(i), values[i]);
  place.set(FailureGauge::kNumber, values[0]);
}

}  // namespace weft::hca
