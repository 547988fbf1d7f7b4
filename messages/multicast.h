// messages/multicast.h -- addresses of multicast groups: a LID that switches copy to every port, a QP number
// for all members, and a Gid that distinguishes groups with the same LID.
#pragma once

#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft {

/// Multicast LIDs end at kLidMax. A LID in this range for which a switch has a route belongs to an endnode.
inline constexpr Lid kLidMulticastFirst{0xC000};
[[nodiscard]] constexpr bool is_multicast(Lid lid) noexcept {
  return lid.value() >= kLidMulticastFirst.value() && lid.value() <= kLidMax;
}
/// Destination QP number of a datagram to a group.
inline constexpr Qpn kQpnMulticast{kQpnMask};
/// A group's Gid begins like an IPv6 multicast address.
[[nodiscard]] inline bool is_multicast(const Gid& gid) noexcept {
  return gid[0] == std::byte{0xFF};
}

/// The LID of a group. Each endnode computes it from the Gid, so no manager assigns LIDs. Groups with the
/// same LID are distinguished by their Gids.
[[nodiscard]] Lid multicast_lid(const Gid& gid) noexcept;

}  // namespace weft
