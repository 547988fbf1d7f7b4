// base/tap_port.h -- a TAP interface as a FramePort: `--os tap:NAME` of the host half and `--nic tap:NAME` of
// the unit half. The interface may exist already (persistent, with its addresses; decisions 2.23), is made
// when it does not, or comes as an open descriptor from the launcher, so that the process needs no
// capability.
#pragma once

#include <net/if.h>

#include <memory>
#include <string>
#include <utility>

#include "base/kernel_port.h"

namespace weft {

/// Opens /dev/net/tun and attaches to `name` with vnet headers; makes the interface when there is none. What
/// the launcher calls before it passes the descriptor on. Needs CAP_NET_ADMIN unless the interface belongs to
/// the caller; the error says so and what works without.
Result<UniqueFd> open_tap(const std::string& name);
/// Attaches a descriptor of open_tap() whose interface was deleted to the interface `name` of the namespace
/// it was opened in; makes that when there is none. All who share the descriptor are attached by it. Rights
/// as for open_tap().
Status attach_tap(int fd, const std::string& name);
/// Name of the interface that a descriptor of open_tap() is attached to; empty when that was deleted.
[[nodiscard]] std::string tap_name(int fd);

/// Owner: the thread of the driver half.
///
/// An interface that was deleted takes its descriptor's place with it, but the descriptor can be attached
/// again: by this process once there is a persistent interface of that name that it may use, or by a process
/// that shares the open descriptor and has the right to make an interface (the launcher).
class TapPort final : public KernelPort {
 public:
  static Result<std::unique_ptr<TapPort>> open(const std::string& name);
  /// Takes a descriptor attached by open_tap(), in the namespace of the interface.
  /// @param name  of the interface; where it has another one now, the port waits until it is renamed back.
  ///              Empty: as it is called now
  static Result<std::unique_ptr<TapPort>> adopt(UniqueFd fd, const std::string& name = {});

  [[nodiscard]] FrameReadResult read_frame(std::span<std::byte> into) noexcept override;
  [[nodiscard]] FrameIo write_frame(std::span<const std::byte> head,
                                    std::span<const std::byte> rest) noexcept override;
  void set_carrier(bool up) noexcept override;
  /// While the interface is gone: kept for when it is back.
  Status set_offloads(Offload wanted) override;
  Status set_mac(const MacAddress& mac) override;
  /// The other side of a TAP is our own stack: it hands us everything anyway.
  Status set_promiscuous(bool) override { return {}; }

 private:
  TapPort(UniqueFd fd, NetInterface interface) noexcept
      : KernelPort(std::move(fd), std::move(interface), IFF_UP, Side::kInterfaceSends) {}
  /// @param called  the name that the interface has now
  Status prepare(const std::string& called);
  void tell_carrier() noexcept;
  Status attach() override;
  void detach() noexcept override {}

  Offload offloads_ = Offload::kNone;  // in force, or to be when the interface is back
  bool carrier_ = true;                // the same
};

}  // namespace weft
