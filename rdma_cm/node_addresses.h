// rdma_cm/node_addresses.h -- the IP addresses of an endnode: its own, and those of its host's interfaces.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "messages/ids.h"
#include "rdma_cm/ip_address.h"

namespace weft::rdma_cm {

/// The addresses of an endnode without configured ones: 10.87.0.0 and fd57:4546:5400:: plus its LID.
[[nodiscard]] IpAddress ipv4_of(Lid lid) noexcept;
[[nodiscard]] IpAddress ipv6_of(Lid lid) noexcept;

/// The LID to which this fixed address belongs; kLidNone for other addresses.
[[nodiscard]] Lid lid_of(const IpAddress& address) noexcept;

/// One owner thread, or a lock around it.
class NodeAddresses {
 public:
  /// @param wanted  addresses separated by commas; a family without one gets its address from the LID
  NodeAddresses(const Clock& clock, Lid lid, std::string_view wanted);

  /// The endnode has got another LID.
  void set_lid(Lid lid) noexcept;

  [[nodiscard]] IpAddress own(uint8_t family) const noexcept { return family == 6 ? own_v6_ : own_v4_; }
  /// True for an own address or one of the host. The host's list is read at most once per second.
  [[nodiscard]] bool owns(const IpAddress& address) noexcept;
  /// The same number for all processes that share the host's addresses.
  [[nodiscard]] static uint64_t host_number();

 private:
  void read_host() noexcept;

  const Clock& clock_;
  IpAddress own_v4_{};
  IpAddress own_v6_{};
  bool wanted_v4_ = false;  // configured, not derived from the LID
  bool wanted_v6_ = false;
  std::vector<IpAddress> host_;
  Instant read_again_ = Instant::min();
};

}  // namespace weft::rdma_cm
