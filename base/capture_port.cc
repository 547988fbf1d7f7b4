#include "base/capture_port.h"

#include <algorithm>
#include <limits>

namespace weft {

Status CapturePort::start_capture(const std::string& path, uint32_t frame_bytes_max, uint32_t ring_bytes) {
  Result<CaptureRing> ring = CaptureRing::create(path, ring_bytes);
  if (!ring.ok()) return ring.error();
  ring_ = std::move(ring).value();
  keep_max_ = frame_bytes_max == 0 ? std::numeric_limits<uint32_t>::max() : frame_bytes_max;
  return {};
}

void CapturePort::copy(FrameDirection direction, std::span<const std::byte> head,
                       std::span<const std::byte> rest) noexcept {
  if (head.size() >= kVnetBytes) ring_->write(direction, head.subspan(kVnetBytes), rest, keep_max_);
}

FrameReadResult CapturePort::read_frame(std::span<std::byte> into) noexcept {
  const FrameReadResult got = inner_->read_frame(into);
  if (ring_.has_value() && got.io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kIn,
         std::span<const std::byte>(into).first(std::min<size_t>(got.bytes, into.size())), {});
  return got;
}

FrameIo CapturePort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const FrameIo io = inner_->write_frame(head, rest);
  if (ring_.has_value() && io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kOut, head, rest);
  return io;
}

}  // namespace weft
