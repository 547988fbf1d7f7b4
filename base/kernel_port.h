// base/kernel_port.h -- what ports on a network interface of the kernel share: a descriptor that frames
// cross, the interface behind it, its settings and state as they are now, and what an error of a write means.
// `TapPort` and `PacketNic` are the two.
#pragma once

#include <utility>
#include <vector>

#include "base/frame_port.h"
#include "base/net_interface.h"
#include "base/unique_fd.h"

namespace weft {

/// Owner: the thread of the driver half.
class KernelPort : public FramePort {
 public:
  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  /// Looks a few times a second whether the interface is up and which MTU, address and filters it has:
  /// whoever may change them does so by `ip link`, and info() shows it.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override { return next_look_; }
  [[nodiscard]] bool carrier() const noexcept override { return up_; }
  /// Needs CAP_NET_ADMIN when it changes anything.
  Status set_mtu(uint32_t mtu_bytes) override;
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 protected:
  /// @param up_flag  IFF_UP, or IFF_RUNNING where the medium matters
  KernelPort(UniqueFd fd, NetInterface interface, uint32_t up_flag) noexcept
      : fd_(std::move(fd)), interface_(std::move(interface)), up_flag_(up_flag) {}
  /// Fills in info() from the interface, and makes it gather no frame longer than an element holds.
  Status describe(std::string kind, Offload offloads);
  /// Counts a write that failed with `error`; says what the driver half has to do about it.
  [[nodiscard]] FrameIo write_failed(int error) noexcept;

  UniqueFd fd_;
  NetInterface interface_;
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;

 private:
  void follow_flags() noexcept;

  uint32_t up_flag_;
  Instant next_look_ = Instant::min();
  bool up_ = true;
};

}  // namespace weft
