#include "base/capture_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/words.h"

namespace weft {

void CapturePort::start_capture(std::shared_ptr<CaptureRing> ring, uint32_t port,
                                uint32_t frame_bytes_max) noexcept {
  ring_ = std::move(ring);
  port_ = port;
  keep_max_ = frame_bytes_max == 0 ? std::numeric_limits<uint32_t>::max() : frame_bytes_max;
}

Status start_capture(std::span<CapturePort* const> ports, const CaptureRequest& options) {
  std::vector<std::string> names;
  for (const CapturePort* port : ports) names.push_back(port->name());
  if (!options.interface.empty() && std::find(names.begin(), names.end(), options.interface) == names.end())
    return Error{
        fmt::format("there is no interface '{}'{}", options.interface, choices(options.interface, names))};
  Result<CaptureRing> ring = CaptureRing::create(options.path, options.ring_bytes);
  if (!ring.ok()) return ring.error();
  const auto shared = std::make_shared<CaptureRing>(std::move(ring).value());
  for (uint32_t i = 0; i < ports.size(); ++i) {
    ports[i]->stop_capture();
    if (options.interface.empty() || names[i] == options.interface)
      ports[i]->start_capture(shared, i, options.frame_bytes_max);
  }
  return {};
}

void CapturePort::copy(FrameDirection direction, std::span<const std::byte> head,
                       std::span<const std::byte> rest) noexcept {
  if (head.size() >= kVnetBytes) ring_->write(port_, direction, head.subspan(kVnetBytes), rest, keep_max_);
}

FrameReadResult CapturePort::read_frame(std::span<std::byte> into) noexcept {
  const FrameReadResult got = inner_->read_frame(into);
  if (ring_ != nullptr && got.io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kIn,
         std::span<const std::byte>(into).first(std::min<size_t>(got.bytes, into.size())), {});
  return got;
}

FrameIo CapturePort::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const FrameIo io = inner_->write_frame(head, rest);
  if (ring_ != nullptr && io == FrameIo::kOk) [[unlikely]]
    copy(FrameDirection::kOut, head, rest);
  return io;
}

}  // namespace weft
