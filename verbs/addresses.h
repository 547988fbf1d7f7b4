// verbs/addresses.h -- addresses and sizes as libibverbs writes them, and as the adapter does.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "adapter/verbs.h"

namespace weft::verbs {

class ProcessNode;

/// Entries of a port's table of GIDs, and one of them. InfiniBand has fe80::GUID. RoCE has three, which all
/// end in the LID: of a MAC address, and the IPv4 and IPv6 addresses of an endnode without one of its own.
/// Each is there as version 1 and then as version 2, so that the IPv4 address of version 2 has the index 3
/// that people type.
[[nodiscard]] int gid_count(const ProcessNode& node) noexcept;
[[nodiscard]] ibv_gid gid_at(ProcessNode& node, int index) noexcept;
[[nodiscard]] ibv_gid_type gid_type_at(const ProcessNode& node, int index) noexcept;
/// The LID of the port with this GID of RoCE; kLidNone: there is none.
[[nodiscard]] Lid roce_lid(const Gid& gid) noexcept;
/// The LID that an address names: as in RoCE by its GID, where that is one of RoCE, or itself. Programs put
/// something else there for RoCE (UCX the source port of UDP).
[[nodiscard]] Lid dlid_of(const ibv_ah_attr& attr) noexcept;
/// 0: no such partition.
[[nodiscard]] uint16_t pkey_at(ProcessNode& node, size_t index) noexcept;

[[nodiscard]] constexpr uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
  return 128U << static_cast<uint32_t>(mtu);
}
/// The largest that fits a cell.
[[nodiscard]] constexpr ibv_mtu mtu_of(uint32_t cell_bytes) noexcept {
  auto code = static_cast<uint32_t>(IBV_MTU_256);
  while (code < IBV_MTU_4096 && mtu_bytes(static_cast<ibv_mtu>(code + 1)) <= cell_bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

/// A GID of our subnet, fe80::GUID or one of RoCE, is zero for the adapter: the LID says it all. Others
/// keep their form.
[[nodiscard]] Gid far_gid(const ibv_gid& gid) noexcept;
/// Of a multicast group, as it is.
[[nodiscard]] Gid group_gid(const ibv_gid& gid) noexcept;
[[nodiscard]] adapter::AhAttr ah_attr_of(const ibv_ah_attr& attr) noexcept;

}  // namespace weft::verbs
