#include "base/capture_port.h"

#include <algorithm>
#include <limits>

namespace weft {

void CapturePort::start_capture(std::shared_ptr<CaptureRing> ring, uint32_t port, uint32_t frame_bytes_max) {
  const uint32_t keep_max = frame_bytes_max == 0 ? std::numeric_limits<uint32_t>::max() : frame_bytes_max;
  copies_.push_back({std::move(ring), port, keep_max});
}

void CapturePort::stop_capture(const CaptureRing& ring) noexcept {
  std::erase_if(copies_, [&ring](const Copy& copy) { return copy.ring.get() == &ring; });
}

void CapturePort::copy(FrameDirection direction, std::span<const std::byte> head,
                       std::span<const std::byte> rest) noexcept {
  if (head.size() < kVnetBytes) return;
  for (const Copy& copy : copies_)
    copy.ring->write(copy.port, direction, head.subspan(kVnetBytes), rest, copy.keep_max);
}

FrameReadResult CapturePort::read_frame(std::span<std::byte> into) noexcept {
  const FrameReadResult got = inner_->read_frame(into);
  if (!copies_.empty() && got.io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kIn,
         std::span<const std::byte>(into).first(std::min<size_t>(got.bytes, into.size())), {});
  return got;
}

FrameIo CapturePort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const FrameIo io = inner_->write_frame(head, rest);
  if (!copies_.empty() && io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kOut, head, rest);
  return io;
}

}  // namespace weft
