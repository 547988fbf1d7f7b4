// messages/endnode_address.h -- the IPv4 address at which connection management finds an endnode that has no
// configured address: 10.87.0.0 plus its LID (docs/rdma_cm.md).
#pragma once

#include <cstdint>
#include <string>

#include "messages/ids.h"

namespace weft {

inline constexpr uint32_t kEndnodeIpv4Network = 0x0A57'0000;  // 10.87.0.0/16

/// In host byte order.
[[nodiscard]] constexpr uint32_t endnode_ipv4(Lid lid) noexcept {
  return kEndnodeIpv4Network | lid.value();
}

/// The mistake in a list of addresses that a user chose, separated by commas; empty when there is none. The
/// addresses of LIDs, in 10.87.0.0/16 and fd57:4546:5400::/48, cannot be chosen.
[[nodiscard]] std::string address_list_fault(const std::string& list);

}  // namespace weft
