// verbs/addresses.h -- addresses and sizes in libibverbs' form and in the adapter's.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "adapter/verbs.h"

namespace weft::verbs {

class ProcessNode;

/// Number of entries in a port's GID table, and the entry at `index`. An InfiniBand port has one GID,
/// fe80::GUID. A RoCE port has three: one made from a MAC address, and the IPv4 and IPv6 addresses that an
/// endnode without a configured address gets. All three end in the LID. Each appears twice, as RoCE version 1
/// and then as version 2, so that the IPv4 address of version 2 has index 3, which people commonly pass to
/// programs.
[[nodiscard]] int gid_count(const ProcessNode& node) noexcept;
[[nodiscard]] ibv_gid gid_at(ProcessNode& node, uint8_t port, int index) noexcept;
/// True if a way with a global header goes out from one of the `gids` GIDs of its port, or the way has none.
[[nodiscard]] bool has_source(const ibv_ah_attr& way, int gids) noexcept;
[[nodiscard]] ibv_gid_type gid_type_at(const ProcessNode& node, int index) noexcept;
/// The LID of the port that has this RoCE GID; kLidNone when the GID is no RoCE GID of this subnet.
[[nodiscard]] Lid roce_lid(const Gid& gid) noexcept;
/// Destination LID of an address: the LID of its GID if that is a RoCE GID, else the `dlid` field. For RoCE
/// the field may hold something else (UCX puts the UDP source port there).
[[nodiscard]] Lid dlid_of(const ibv_ah_attr& attr) noexcept;
/// LID of a multicast group. On RoCE the group's GID alone names it: programs give any LID there, mostly 0.
[[nodiscard]] Lid group_lid(const Gid& group, uint16_t lid, bool roce) noexcept;
/// P_Key at `index` of the port's table; 0 when the entry is empty or does not exist.
[[nodiscard]] uint16_t pkey_at(ProcessNode& node, uint8_t port, size_t index) noexcept;

[[nodiscard]] constexpr uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
  return 128U << static_cast<uint32_t>(mtu);
}
/// The largest MTU whose payload fits into one cell.
[[nodiscard]] constexpr ibv_mtu mtu_of(uint32_t cell_bytes) noexcept {
  auto code = static_cast<uint32_t>(IBV_MTU_256);
  while (code < IBV_MTU_4096 && mtu_bytes(static_cast<ibv_mtu>(code + 1)) <= cell_bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

/// GID for the adapter: zero for a GID of our subnet (fe80::GUID or a RoCE GID), because the LID identifies
/// the port. Other GIDs are passed on unchanged.
[[nodiscard]] Gid far_gid(const ibv_gid& gid) noexcept;
/// GID of a multicast group, unchanged.
[[nodiscard]] Gid group_gid(const ibv_gid& gid) noexcept;
[[nodiscard]] adapter::AhAttr ah_attr_of(const ibv_ah_attr& attr, bool roce) noexcept;

}  // namespace weft::verbs
