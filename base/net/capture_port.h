// base/net/capture_port.h -- a FramePort that passes every frame on and, while captures run, writes a copy
// into the CaptureRing of each capture. All ports of a process share these rings. Wrap each port of a driver
// half in one; without a capture it costs one branch per frame.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/net/capture_point.h"
#include "base/net/frame_port.h"

namespace weft {

/// Owner: the thread of the driver half.
class CapturePort final : public FramePort, public CapturePoint {
 public:
  /// `name` is shown to people: the interface, or the kind of port if it has no interface.
  CapturePort(std::unique_ptr<FramePort> inner, std::string name)
      : CapturePoint(std::move(name)), inner_(std::move(inner)) {}

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
  void copy_frame(FrameDirection direction, std::span<const std::byte> head,
                  std::span<const std::byte> rest) noexcept;

  std::unique_ptr<FramePort> inner_;
};

}  // namespace weft
