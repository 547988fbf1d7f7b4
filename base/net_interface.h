// base/net_interface.h -- what the drivers ask of and set on a network interface of the process's own
// namespace: index, address, MTU, flags, largest GSO and GRO frame. Set-up only, except mac(),
// mtu() and flags().
#pragma once

#include <cstdint>
#include <string>

#include "base/frame_port.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Largest GSO frame that fits a 64 KiB element with its vnet header: the kernel makes frames of up to 65549
/// bytes when it is not told otherwise (decisions 2.18).
inline constexpr uint32_t kGsoBytesMax = 65000;

class NetInterface {
 public:
  /// Fails when there is no interface of that name.
  static Result<NetInterface> open(const std::string& name);
  NetInterface() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int index() const noexcept { return index_; }
  /// Zero when the interface is gone. One system call.
  [[nodiscard]] MacAddress mac() const noexcept;
  /// 0 when the interface is gone. One system call.
  [[nodiscard]] uint32_t mtu() const noexcept;
  /// Needs CAP_NET_ADMIN in the namespace.
  Status set_mtu(uint32_t bytes) const;
  /// Largest frame that the stack hands to the interface and that it gathers from it. Needs CAP_NET_ADMIN.
  Status set_gso_max(uint32_t bytes) const;
  /// IFF_UP, IFF_RUNNING, IFF_PROMISC and IFF_ALLMULTI as bits of SIOCGIFFLAGS; the last two as `ip link set`
  /// left them, not as packet sockets and bridges want them. 0 when the interface is gone. One system call.
  [[nodiscard]] uint32_t flags() const noexcept;

 private:
  std::string name_;
  int index_ = 0;
  UniqueFd socket_;
};

}  // namespace weft
