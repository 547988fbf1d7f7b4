// base/kernel_port.h -- what ports on a network interface of the kernel share: a descriptor that frames
// cross, the interface behind it, its settings and state as they are now, and what the errors of reads and
// writes mean. `TapPort` and `PacketNic` are the two.
//
// The interface may go and come back while the process runs: deleted and made anew, renamed, moved to another
// namespace. A port whose interface is gone has no carrier, names no descriptor to wait for -- the kernel
// would report it ready for ever -- and looks a few times a second whether the name is there again.
#pragma once

#include <string>
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
  /// Looks a few times a second whether the interface is there and up, which MTU, address and filters it has
  /// (`ip link` may have changed them; info() shows it) and how many frames it has dropped.
  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] Instant deadline() const noexcept override { return next_look_; }
  [[nodiscard]] bool carrier() const noexcept override { return up_; }
  /// Needs CAP_NET_ADMIN when it changes anything.
  Status set_mtu(uint32_t mtu_bytes) override;
  [[nodiscard]] CounterSet<PortCounter>& counters() noexcept override { return counters_; }

 protected:
  /// Whose traffic the interface counts as received.
  enum class Side : uint8_t {
    kInterfaceReceives,  // what it receives is what we read: a NIC
    kInterfaceSends      // what it sends is what we read: a TAP
  };
  /// @param up_flag  IFF_UP, or IFF_RUNNING where the medium matters
  KernelPort(UniqueFd fd, NetInterface interface, uint32_t up_flag, Side side) noexcept
      : fd_(std::move(fd)), interface_(std::move(interface)), up_flag_(up_flag), side_(side) {}
  /// Fills in info() from the interface, and makes it gather no frame longer than an element holds.
  Status describe(std::string kind, Offload offloads);
  /// As describe(), for an interface that is not there yet: the port starts without it.
  void describe_absent(std::string kind, Offload offloads);
  /// Joins the descriptor to the interface that now has the name. Needs no right.
  virtual Status attach() = 0;
  /// Takes the descriptor off an interface that has the name no more.
  virtual void detach() noexcept = 0;
  /// Adds to the counters what the kernel dropped at the descriptor itself.
  virtual void count_descriptor_losses() noexcept {}
  /// False while the interface is gone.
  [[nodiscard]] bool here() const noexcept { return !info_.gone; }
  /// Says what a read that failed with `error` means, and counts it where it means a loss.
  [[nodiscard]] FrameReadResult read_failed(int error) noexcept;
  /// The same of a write.
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
  InterfaceLosses losses_;    // as the interface counted them at the last look
  std::string attach_error_;  // said already
  bool up_ = true;
};

/// "interface NAME is gone", "interface NAME is down", or empty: what is wrong with a port on an interface of
/// the kernel.
[[nodiscard]] std::string interface_fault(const FramePort& port);

}  // namespace weft
