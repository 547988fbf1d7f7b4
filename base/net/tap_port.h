// base/net/tap_port.h -- a TAP interface as a FramePort: `--os tap:NAME` of the host half and `--nic
// tap:NAME` of the unit half. The interface may exist already (persistent, with its addresses; decisions
// 2.23), be created here, or come as an open descriptor from the launcher, so that the process needs no
// capability.
#pragma once

#include <net/if.h>

#include <memory>
#include <string>
#include <utility>

#include "base/net/kernel_port.h"

namespace weft {

/// Opens /dev/net/tun and attaches to `name` with vnet headers; creates the interface if there is none. The
/// launcher calls it before it passes the descriptor on. Needs CAP_NET_ADMIN unless the interface belongs to
/// the caller; the error names an alternative.
Result<UniqueFd> open_tap(const std::string& name);
/// Attaches a descriptor of open_tap() whose interface was deleted to the interface `name` of the namespace
/// it was opened in; creates the interface if there is none. This attaches all processes that share the
/// descriptor. Needs the same rights as open_tap().
Status attach_tap(int fd, const std::string& name);
/// Name of the interface that a descriptor of open_tap() is attached to; empty if the interface was deleted.
[[nodiscard]] std::string tap_name(int fd);

/// Owner: the thread of the driver half.
///
/// If the interface is deleted, the descriptor is detached but can be attached again: by this process if a
/// persistent interface of that name exists that it may use, or by a process that shares the open descriptor
/// and may create interfaces (the launcher).
class TapPort final : public KernelPort {
 public:
  static Result<std::unique_ptr<TapPort>> open(const std::string& name);
  /// Takes a descriptor attached by open_tap(), in the namespace of the interface.
  /// @param name of the interface. If the interface has another name now, the port waits until it is renamed
  /// back.
  ///              Empty: its current name
  static Result<std::unique_ptr<TapPort>> adopt(UniqueFd fd, const std::string& name = {});

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  void set_carrier(bool up) noexcept override;
  /// While the interface is gone the value is kept, and set when the interface is back.
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  /// No effect: the kernel's stack hands a TAP all frames anyway.
  Status set_promiscuous(bool) override { return {}; }

 private:
  TapPort(UniqueFd fd, NetInterface interface) noexcept
      : KernelPort(std::move(fd), std::move(interface), IFF_UP, Side::kInterfaceSends) {}
  /// @param called  the name that the interface has now
  Status prepare(const std::string& called);
  void tell_carrier() noexcept;
  Status attach() override;
  void detach() noexcept override {}

  Offload offloads_ = Offload::kNone;  // in force, or to be set when the interface is back
  bool carrier_ = true;                // likewise
};

}  // namespace weft
