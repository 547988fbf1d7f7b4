#include "base/net/capture_port.h"

#include <algorithm>

namespace weft {

/// The frame without its vnet header.
void CapturePort::copy_frame(FrameDirection direction, std::span<const std::byte> head,
                             std::span<const std::byte> rest) noexcept {
  if (head.size() >= kVnetBytes) copy(direction, head.subspan(kVnetBytes), rest);
}

FrameReadResult CapturePort::read_frame(std::span<std::byte> into) noexcept {
  const FrameReadResult got = inner_->read_frame(into);
  if (captured() && got.io == FrameIo::kOk) [[unlikely]]
    copy_frame(FrameDirection::kIn,
               std::span<const std::byte>(into).first(std::min<size_t>(got.bytes, into.size())), {});
  return got;
}

FrameIo CapturePort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const FrameIo io = inner_->write_frame(head, rest);
  if (captured() && io == FrameIo::kOk) [[unlikely]]
    copy_frame(FrameDirection::kOut, head, rest);
  return io;
}

}  // namespace weft
