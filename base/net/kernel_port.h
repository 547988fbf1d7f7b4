// base/net/kernel_port.h -- base of the ports on a kernel network interface, `TapPort` and `PacketNic`: the
// descriptor for frames, the interface behind it, its current settings and state, and the meaning of read and
// write errors.
//
// The interface may be deleted and made again, renamed, or moved to another namespace while the process runs.
// A port whose interface is gone has no carrier and names no descriptor to wait for, because the kernel would
// report it ready for ever. It checks a few times a second whether an interface of that name exists.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/net/frame_port.h"
#include "base/net/net_interface.h"
#include "base/unique_fd.h"

namespace weft {

/// Owner: the thread of the driver half.
class KernelPort : public FramePort {
 public:
  [[nodiscard]] const FramePortInfo& info() const noexcept override { return info_; }
  /// A few times a second, reads whether the interface exists and is up, its MTU, address and filters (`ip
  /// link` may have changed them; info() shows them), and how many frames it has dropped.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override { return next_look_; }
  [[nodiscard]] bool carrier() const noexcept override { return up_; }
  /// Needs CAP_NET_ADMIN when it changes anything.
  Status set_mtu(uint32_t mtu_bytes) override;
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 protected:
  /// Which counters of the interface count the frames that we read.
  enum class Side : uint8_t {
    kInterfaceReceives,  // the interface's receive counters count frames that we read: a NIC
    kInterfaceSends      // the interface's send counters count frames that we read: a TAP
  };
  /// @param up_flag  IFF_UP, or IFF_RUNNING where the medium matters
  KernelPort(UniqueFd fd, NetInterface interface, uint32_t up_flag, Side side) noexcept
      : fd_(std::move(fd)), interface_(std::move(interface)), up_flag_(up_flag), side_(side) {}
  /// Fills in info() from the interface, and limits the interface's GRO to frames that fit an element.
  Status describe(std::string kind, Offload offloads);
  /// As describe(), for an interface that is not there yet: the port starts without it.
  void describe_absent(std::string kind, Offload offloads);
  /// Attaches the descriptor to the interface that now has the name. Needs no capability.
  virtual Status attach() = 0;
  /// Detaches the descriptor from an interface that was renamed or moved.
  virtual void detach() noexcept = 0;
  /// Adds to the counters what the kernel dropped at the descriptor itself.
  virtual void count_descriptor_losses() noexcept {}
  /// False while the interface is gone.
  [[nodiscard]] bool here() const noexcept { return !info_.gone; }
  /// Translates errno `error` of a failed read into a result, and counts it if a frame was lost.
  [[nodiscard]] FrameReadResult read_failed(int error) noexcept;
  /// As read_failed(), for a write.
  [[nodiscard]] FrameIo write_failed(int error) noexcept;

  UniqueFd fd_;
  NetInterface interface_;
  FramePortInfo info_;
  CounterSet<PortCounter> counters_;

 private:
  void follow_flags() noexcept;
  void follow_settings() noexcept;
  void look_for_interface() noexcept;
  void look_soon() noexcept;
  void leave() noexcept;
  void come_back() noexcept;
  void count_losses(Instant now) noexcept;
  void limit_gso() noexcept;

  uint32_t up_flag_;
  Side side_;
  Instant next_look_ = Instant::min();
  Instant next_losses_ = Instant::min();
  InterfaceLosses losses_;    // as the interface counted them at the last check
  std::string attach_error_;  // the error that was logged last, so that it is logged once
  bool up_ = true;
};

/// "interface NAME is gone", "interface NAME is down", or empty if the port's interface works.
[[nodiscard]] std::string interface_fault(const FramePort& port);

}  // namespace weft
