// base/net/net_interface.h -- reads and sets the properties of a network interface in the process's
// namespace: index, address, MTU, flags, largest GSO and GRO frame, losses. Set-up only, except find(),
// mac(), mtu(), flags() and losses(): these take no kernel lock that other processes hold for long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/net/frame_port.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Largest GSO frame that fits a 64 KiB element with its vnet header: the kernel makes frames of up to 65549
/// bytes unless this limit is set (decisions 2.18).
inline constexpr uint32_t kGsoBytesMax = 65000;

/// Frames that an interface lost, as it counts them since it was made.
struct InterfaceLosses {
  uint64_t receive_errors = 0;
  uint64_t receive_drops = 0;
  uint64_t send_errors = 0;
  uint64_t send_drops = 0;
};

/// Reads the line of interface `name` from the text of /proc/net/dev; zeros if there is none.
[[nodiscard]] InterfaceLosses find_losses(std::string_view text, std::string_view name) noexcept;

/// Largest frame that the stack hands to an interface (GSO) and that it gathers from it (GRO).
struct GsoSizes {
  uint32_t gso_bytes = 0;
  uint32_t gro_bytes = 0;
  friend bool operator==(const GsoSizes&, const GsoSizes&) = default;
};

/// A name, and the interface that has it. Another interface may take the name later.
class NetInterface {
 public:
  /// Fails when there is no interface of that name.
  static Result<NetInterface> open(const std::string& name);
  /// As open(), but succeeds if there is no such interface yet; index() is 0 then.
  static Result<NetInterface> expect(const std::string& name);
  NetInterface() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Of the interface that had the name at open() or at the last follow().
  [[nodiscard]] int index() const noexcept { return index_; }
  /// Index of the interface that has the name now; 0 when there is none. One system call.
  [[nodiscard]] int find() const noexcept;
  /// Switches to the interface that has the name now.
  void follow() noexcept { index_ = find(); }
  /// Zeros when the interface is gone.
  [[nodiscard]] InterfaceLosses losses() const noexcept;
  /// Zero when the interface is gone. One system call.
  [[nodiscard]] MacAddress mac() const noexcept;
  /// 0 when the interface is gone. One system call.
  [[nodiscard]] uint32_t mtu() const noexcept;
  /// Needs CAP_NET_ADMIN in the namespace.
  Status set_mtu(uint32_t bytes) const;
  /// Needs CAP_NET_ADMIN in the namespace, and some drivers want the interface down.
  Status set_mac(const MacAddress& mac) const;
  [[nodiscard]] Result<GsoSizes> gso_sizes() const;
  /// Name of the bridge that it is a port of; empty when it is none, or gone.
  [[nodiscard]] std::string bridge() const;
  /// Needs CAP_NET_ADMIN.
  Status set_gso_sizes(const GsoSizes& sizes) const;
  /// Makes sure that neither size is above `bytes`; needs CAP_NET_ADMIN when one is.
  Status limit_gso(uint32_t bytes) const;
  /// IFF_UP, IFF_RUNNING, IFF_PROMISC and IFF_ALLMULTI as bits of SIOCGIFFLAGS; the last two as `ip link set`
  /// left them, not as packet sockets and bridges want them. 0 when the interface is gone. One system call.
  [[nodiscard]] uint32_t flags() const noexcept;

 private:
  std::string name_;
  int index_ = 0;
  UniqueFd socket_;
  UniqueFd counts_;  // /proc/self/net/dev
};

}  // namespace weft
