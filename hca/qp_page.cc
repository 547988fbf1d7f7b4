#include "hca/qp_page.h"

#include <algorithm>
#include <string>

#include "base/stats_page.h"

namespace weft::hca {

bool QpPage::publish(StatsPage& page) {
  total_ = page.add("qps");
  auto places = std::make_unique<std::array<Place, kShown>>();
  for (size_t i = 0; i < kShown; ++i) {
    const std::string name = "qp." + std::to_string(i);
    if (!page.publish(name, (*places)[i].gauges) || !page.publish(name, (*places)[i].counters)) return false;
  }
  places_ = std::move(places);
  return total_ != nullptr;
}

QpPage::Place* QpPage::place_of(const adapter::QueuePair* qp) noexcept {
  if (places_ == nullptr) return nullptr;
  auto* const found =
      std::find_if(places_->begin(), places_->end(), [qp](const Place& place) { return place.qp == qp; });
  return found == places_->end() ? nullptr : found;
}

void QpPage::enter(const adapter::ChannelAdapter& adapter, const adapter::QueuePair& qp) noexcept {
  if (total_ != nullptr) total_->fetch_add(1, std::memory_order_relaxed);
  Place* const place = place_of(nullptr);
  if (place == nullptr) return;
  place->qp = &qp;
  show(adapter, *place);
}

void QpPage::note(const adapter::ChannelAdapter& adapter, const adapter::QueuePair& qp) noexcept {
  if (Place* const place = place_of(&qp); place != nullptr) show(adapter, *place);
}

void QpPage::leave(const adapter::QueuePair& qp) noexcept {
  if (total_ != nullptr) total_->fetch_sub(1, std::memory_order_relaxed);
  Place* const place = place_of(&qp);
  if (place == nullptr) return;
  place->qp = nullptr;
  for (size_t i = 0; i < CounterSet<QpGauge>::kSize; ++i) place->gauges.set(static_cast<QpGauge>(i), 0);
  for (size_t i = 0; i < CounterSet<adapter::QpCounter>::kSize; ++i)
    place->counters.set(static_cast<adapter::QpCounter>(i), 0);
}

void QpPage::look(const adapter::ChannelAdapter& adapter, Instant now) noexcept {
  if (places_ == nullptr || now < due_) return;
  due_ = now + kEvery;
  for (Place& place : *places_) {
    if (place.qp != nullptr) show(adapter, place);
  }
}

void QpPage::show(const adapter::ChannelAdapter& adapter, Place& place) noexcept {
  const adapter::QpAttr attr = adapter.query_qp(*place.qp);
  place.gauges.set(QpGauge::kNumber, adapter.qpn(*place.qp).value());
  place.gauges.set(QpGauge::kService, static_cast<uint64_t>(adapter.config(*place.qp).type));
  place.gauges.set(QpGauge::kState, static_cast<uint64_t>(attr.state));
  place.gauges.set(QpGauge::kPeerLid, attr.dlid.value());
  place.gauges.set(QpGauge::kPeerNumber, attr.dest_qpn.value());
  place.gauges.set(QpGauge::kWay, static_cast<uint64_t>(adapter.way_of(*place.qp)));
  const CounterSet<adapter::QpCounter>& counted = adapter.counters(*place.qp);
  for (size_t i = 0; i < CounterSet<adapter::QpCounter>::kSize; ++i) {
    const auto counter = static_cast<adapter::QpCounter>(i);
    place.counters.set(counter, counted.get(counter));
  }
}

}  // namespace weft::hca
