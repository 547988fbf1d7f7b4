#include "base/net/capture_point.h"

#include <algorithm>
#include <limits>

namespace weft {

void CapturePoint::start_capture(std::shared_ptr<CaptureRing> ring, uint32_t port, uint32_t bytes_max) {
  const uint32_t keep_max = bytes_max == 0 ? std::numeric_limits<uint32_t>::max() : bytes_max;
  copies_.push_back({std::move(ring), port, keep_max});
  if (running_ != nullptr) ++*running_;
}

void CapturePoint::stop_capture(const CaptureRing& ring) noexcept {
  const size_t ended = std::erase_if(copies_, [&ring](const Copy& copy) { return copy.ring.get() == &ring; });
  if (running_ != nullptr) *running_ -= static_cast<uint32_t>(ended);
}

void CapturePoint::copy(FrameDirection direction, std::span<const std::byte> head,
                        std::span<const std::byte> rest, std::string_view note) noexcept {
  for (const Copy& copy : copies_) copy.ring->write(copy.port, direction, head, rest, copy.keep_max, note);
}

}  // namespace weft
