#include "hca/deferred_work.h"

#include <utility>

namespace weft::hca {

void DeferredWork::add(EventSource& source, int64_t units) noexcept {
  source.owed += units;
  if (!std::exchange(source.listed, true)) source.next = std::exchange(owing_, &source);
}

void DeferredWork::forget(const EventSource& source) noexcept {
  EventSource** at = &owing_;
  while (*at != nullptr && *at != &source) at = &(*at)->next;
  if (*at != nullptr) *at = source.next;
}

DeferredWork::Batch DeferredWork::take() noexcept {
  Batch batch;
  for (size_t i = 0; i < Batch::kMost && !wakes_.empty(); ++i) batch.bells[i] = wakes_.take();
  for (size_t i = 0; i < Batch::kMost && owing_ != nullptr; ++i) {
    EventSource& source = *std::exchange(owing_, owing_->next);
    batch.units[i] = {source.descriptor, std::exchange(source.owed, 0)};
    source.listed = false;
  }
  static_cast<DeferredKinds&>(batch) = std::exchange(static_cast<DeferredKinds&>(*this), DeferredKinds());
  return batch;
}

void DeferredWork::Batch::ring() noexcept {
  for (const std::shared_ptr<fabric::PeerBell>& bell : bells) {
    if (bell != nullptr) bell->ring();
  }
  for (const Units& due : units) {
    if (due.count > 0) due.descriptor->add_unordered(static_cast<uint64_t>(due.count));
    for (int64_t left = due.count; left < 0; ++left) due.descriptor->take_back_unordered();
  }
}

}  // namespace weft::hca
