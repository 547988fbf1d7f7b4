// messages/global_header.h -- the global network header of LAY-CELL: 40 bytes in the form of an IPv6 header,
// between the cell header and the parts behind it, in cells for another subnet (SAN-FRAME-03, SAN-ADDR-03).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

/// A 128-bit fabric address: the subnet's prefix in the upper half, the adapter's GUID in the lower.
using Gid = std::array<std::byte, 16>;

/// fd57:4546:5400:SUBNET:GUID, a unique local address (RFC 4193). All addresses of a subnet share the upper
/// half.
[[nodiscard]] Gid make_gid(SubnetId subnet, Guid guid) noexcept;
/// The subnet of a Gid made by make_gid().
[[nodiscard]] SubnetId subnet_of(const Gid& gid) noexcept;

inline constexpr uint8_t kGlobalNextHeader = 0x1B;  // as InfiniBand's GRH
inline constexpr uint8_t kHopLimitDefault = 64;

struct GlobalHeaderWire {
  Be32 version_class_flow;  // version 6 in the top four bits
  Be16 payload_bytes;       // of the cell behind this header
  uint8_t next_header;
  uint8_t hop_limit;
  Gid source;
  Gid destination;
};
static_assert(sizeof(GlobalHeaderWire) == 40 && alignof(GlobalHeaderWire) == 1);
static_assert(std::is_trivially_copyable_v<GlobalHeaderWire>);
static_assert(offsetof(GlobalHeaderWire, payload_bytes) == 4 && offsetof(GlobalHeaderWire, hop_limit) == 7 &&
              offsetof(GlobalHeaderWire, source) == 8 && offsetof(GlobalHeaderWire, destination) == 24);

/// Fills all fields except the payload length, which changes from cell to cell.
[[nodiscard]] GlobalHeaderWire make_global_header(const Gid& source, const Gid& destination) noexcept;

}  // namespace weft
