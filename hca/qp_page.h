// hca/qp_page.h -- the queue pairs of a device on its stats page: number, service, state, peer and counters
// of each. Internal to hca/.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "adapter/adapter.h"
#include "adapter/counters.h"
#include "base/clock.h"
#include "base/counters.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::hca {

enum class QpGauge : uint8_t { kNumber, kService, kState, kPeerLid, kPeerNumber, kWay, kCount };
[[nodiscard]] constexpr CounterNames<QpGauge> counter_labels(QpGauge /*of*/) noexcept {
  return {"number", "service", "qp_state", "peer_lid", "peer_number", "way"};
}

/// Updated when a QP changes, and every 500 ms by the helper; no call of the data path comes here. Owner: the
/// holder of the device's lock.
class QpPage {
 public:
  /// Further QPs are counted but not shown.
  static constexpr size_t kShown = 64;
  static constexpr Duration kEvery = std::chrono::milliseconds(500);

  /// Adds `qps`, and `qp.N.*` for each place; false when the page is full. Without a page nothing is kept.
  /// The page must outlive the table.
  bool publish(StatsPage& page);
  void enter(const adapter::ChannelAdapter& adapter, const adapter::QueuePair& qp) noexcept;
  /// The QP has changed its state or another attribute.
  void note(const adapter::ChannelAdapter& adapter, const adapter::QueuePair& qp) noexcept;
  void leave(const adapter::QueuePair& qp) noexcept;
  /// Updates the places if kEvery has passed.
  void look(const adapter::ChannelAdapter& adapter, Instant now) noexcept;

 private:
  struct Place {
    const adapter::QueuePair* qp = nullptr;
    CounterSet<QpGauge> gauges;
    CounterSet<adapter::QpCounter> counters;
  };
  [[nodiscard]] Place* place_of(const adapter::QueuePair* qp) noexcept;
  static void show(const adapter::ChannelAdapter& adapter, Place& place) noexcept;

  std::unique_ptr<std::array<Place, kShown>> places_;
  CounterCell* total_ = nullptr;
  Instant due_ = Instant::min();
};

}  // namespace weft::hca
