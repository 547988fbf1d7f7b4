// rdma_cm/node_addresses.h -- the IP addresses of an endnode: its own, and those of its host's interfaces.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "messages/ids.h"
#include "rdma_cm/ip_address.h"

namespace weft::rdma_cm {

/// The addresses of an endnode without one of its own: 10.87.0.0 and fd57:4546:5400:: plus its LID.
[[nodiscard]] IpAddress ipv4_of(Lid lid) noexcept;
[[nodiscard]] IpAddress ipv6_of(Lid lid) noexcept;

/// The LID that this fixed address belongs to; kLidNone when it is none of these.
[[nodiscard]] Lid lid_of(const IpAddress& address) noexcept;

/// One owner thread, or a lock around it.
class NodeAddresses {
 public:
  /// @param wanted  addresses with commas between; absent for a family: from the LID
  NodeAddresses(const Clock& clock, Lid lid, std::string_view wanted);

  /// The endnode has another LID by now.
  void set_lid(Lid lid) noexcept;

  [[nodiscard]] IpAddress own(uint8_t family) const noexcept { return family == 6 ? own_v6_ : own_v4_; }
  /// An own address, or one of the host; the host is asked once a second at most.
  [[nodiscard]] bool owns(const IpAddress& address) noexcept;
  /// The same number for all processes that have the host's addresses in common.
  [[nodiscard]] static uint64_t host_number();

 private:
  void read_host() noexcept;

  const Clock& clock_;
  IpAddress own_v4_{};
  IpAddress own_v6_{};
  bool wanted_v4_ = false;  // it was chosen
  bool wanted_v6_ = false;
  std::vector<IpAddress> host_;
  Instant read_again_ = Instant::min();
};

}  // namespace weft::rdma_cm
