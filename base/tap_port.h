// base/tap_port.h -- a TAP interface as a FramePort: `--os tap:NAME` of the host half and `--nic tap:NAME` of
// the unit half. The interface may exist already (persistent, with its addresses; decisions 2.23), is made
// when it does not, or comes as an open descriptor from the launcher, so that the process needs no
// capability.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/frame_port.h"
#include "base/net_interface.h"
#include "base/unique_fd.h"

namespace weft {

/// Opens /dev/net/tun and attaches to `name` with vnet headers; makes the interface when there is none. What
/// the launcher calls before it passes the descriptor on. Needs CAP_NET_ADMIN unless the interface belongs to
/// the caller; the error says so and what works without.
Result<UniqueFd> open_tap(const std::string& name);

/// Owner: the thread of the driver half.
class TapPort final : public FramePort {
 public:
  static Result<std::unique_ptr<TapPort>> open(const std::string& name);
  /// Takes a descriptor attached by open_tap(), in the namespace of the interface.
  static Result<std::unique_ptr<TapPort>> adopt(UniqueFd fd);

  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  /// Looks at the interface's state a few times a second.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override { return next_look_; }
  void set_carrier(bool up) noexcept override;
  [[nodiscard]] bool carrier() const noexcept override { return up_; }
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  Status set_mtu(uint32_t mtu_bytes) override;
  /// The other side of a TAP is our own stack: it hands us everything anyway.
  Status set_promiscuous(bool) override { return {}; }
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 private:
  TapPort(UniqueFd fd, NetInterface interface) : fd_(std::move(fd)), interface_(std::move(interface)) {}
  Status prepare();
  [[nodiscard]] FrameIo write_failed(int error) noexcept;

  UniqueFd fd_;
  NetInterface interface_;
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;
  Instant next_look_ = Instant::min();
  bool up_ = true;
};

}  // namespace weft
