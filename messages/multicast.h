// messages/multicast.h -- addresses of multicast groups: a LID that switches copy to every port, a QP number
// that stands for all members, and a Gid that tells groups of one LID apart.
#pragma once

#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft {

/// Multicast LIDs, up to kLidMax. One that a switch has a route for is an endnode's all the same.
inline constexpr Lid kLidMulticastFirst{0xC000};
[[nodiscard]] constexpr bool is_multicast(Lid lid) noexcept {
  return lid.value() >= kLidMulticastFirst.value() && lid.value() <= kLidMax;
}
/// What a datagram to a group names instead of a QP.
inline constexpr Qpn kQpnMulticast{kQpnMask};
/// A group's Gid begins as an IPv6 multicast address does.
[[nodiscard]] inline bool is_multicast(const Gid& gid) noexcept {
  return gid[0] == std::byte{0xFF};
}

/// The LID of a group. Each endnode computes it from the Gid, so no manager hands LIDs out. Groups with the
/// same LID are told apart by their Gids.
[[nodiscard]] Lid multicast_lid(const Gid& gid) noexcept;

}  // namespace weft
