#include "tools/capture/psn_map.h"

namespace weft::tools {

MappedPacket& PsnMap::open(Psn psn) {
  const auto known = static_cast<int32_t>(packets_.size());
  int32_t at = packets_.empty() ? 0 : psn.distance_from(oldest_);
  for (; at < 0 && at >= known - kPacketsMax; ++at) {  // a repeat of a packet from before the capture
    packets_.push_front({.first = packets_.front().first - 1, .frames = 1, .ended = true});
    oldest_ = oldest_.plus(Psn::kMask);
  }
  if (packets_.empty() || at < 0 || at >= known + kPacketsMax) {
    packets_.assign(1, {.first = psn.value()});
    oldest_ = psn;
    return packets_.front();
  }
  while (static_cast<int32_t>(packets_.size()) <= at) packets_.push_back({.first = end_of(packets_.back())});
  for (; static_cast<int32_t>(packets_.size()) > kPacketsMax; --at) {
    packets_.pop_front();
    oldest_ = oldest_.plus(1);
  }
  return packets_[static_cast<size_t>(at)];
}

const MappedPacket* PsnMap::find(Psn psn) const noexcept {
  const int32_t at = psn.distance_from(oldest_);
  if (at < 0 || at >= static_cast<int32_t>(packets_.size())) return nullptr;
  return &packets_[static_cast<size_t>(at)];
}

uint32_t PsnMap::number(Psn psn, uint32_t frame) const noexcept {
  if (packets_.empty()) return (psn.value() + frame) & Psn::kMask;
  const int32_t at = psn.distance_from(oldest_);
  const auto known = static_cast<int32_t>(packets_.size());
  if (at < 0) return (packets_.front().first + static_cast<uint32_t>(at) + frame) & Psn::kMask;
  if (at >= known) return (end_of(packets_.back()) + static_cast<uint32_t>(at - known) + frame) & Psn::kMask;
  return (packets_[static_cast<size_t>(at)].first + frame) & Psn::kMask;
}

}  // namespace weft::tools
