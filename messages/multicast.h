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

/// The group of all endnodes with connection management: scope 2 (this subnet), not permanent. Its datagrams
/// go to QP1 of each member, so a switch counts them among the datagrams to QP1.
inline constexpr Gid kGidEverybody{std::byte{0xFF}, std::byte{0x12}, std::byte{0x57}, std::byte{0x45},
                                   std::byte{0x46}, std::byte{0x54}, std::byte{0},    std::byte{0},
                                   std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0},
                                   std::byte{0},    std::byte{0},    std::byte{0},    std::byte{1}};
/// Its LID, which no other group gets.
inline constexpr Lid kLidEverybody{0xD0CD};

/// The LID of a group. Each endnode computes it from the Gid, so no manager assigns LIDs. Groups with the
/// same LID are distinguished by their Gids.
[[nodiscard]] Lid multicast_lid(const Gid& gid) noexcept;

}  // namespace weft
