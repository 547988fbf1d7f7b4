// base/capture_port.h -- a FramePort that lets every frame pass and, while a capture runs, leaves a copy in a
// CaptureRing. Wrap each port of a driver half in one; without a capture it costs one branch a frame.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/capture_ring.h"
#include "base/frame_port.h"

namespace weft {

/// Owner: the thread of the driver half.
class CapturePort final : public FramePort {
 public:
  explicit CapturePort(std::unique_ptr<FramePort> inner) : inner_(std::move(inner)) {}

  /// Creates the ring at `path` and starts to copy; replaces a capture that runs. `frame_bytes_max` 0 keeps
  /// all of a frame, the vnet header never.
  Status start_capture(const std::string& path, uint32_t frame_bytes_max, uint32_t ring_bytes);
  void stop_capture() noexcept { ring_.reset(); }
  [[nodiscard]] FramePort& inner() noexcept { return *inner_; }

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return inner_->info(); }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  int poll(Instant now) noexcept override { return inner_->poll(now); }
  void wait_fds(std::vector<pollfd>& out) const override { inner_->wait_fds(out); }
  [[nodiscard]] Instant deadline() const noexcept override { return inner_->deadline(); }
  void set_carrier(bool up) noexcept override { inner_->set_carrier(up); }
  [[nodiscard]] bool carrier() const noexcept override { return inner_->carrier(); }
  Status set_offloads(Offload wanted) override { return inner_->set_offloads(wanted); }
  Status set_mac(const MacAddress& mac) override { return inner_->set_mac(mac); }
  Status set_mtu(uint32_t mtu_bytes) override { return inner_->set_mtu(mtu_bytes); }
  Status set_promiscuous(bool on) override { return inner_->set_promiscuous(on); }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return inner_->counters(); }

 private:
  void copy(FrameDirection direction, std::span<const std::byte> head,
            std::span<const std::byte> rest) noexcept;

  std::unique_ptr<FramePort> inner_;
  std::optional<CaptureRing> ring_;
  uint32_t keep_max_ = 0;
};

}  // namespace weft
