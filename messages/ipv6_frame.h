// messages/ipv6_frame.h -- IPv6 packets as raw frames of the fabric. The IPv6 header and the global header of
// a cell have the same fields in the same places. Each is made from the other by changing the payload length,
// which in a cell includes the cell's CRC (SAN-XPORT-15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/net/ethernet.h"
#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft {

static_assert(kIpv6HeaderBytes == sizeof(GlobalHeaderWire));

/// Stands in a raw frame in place of a QPN. QPs that registered for the frame's next header and destination
/// receive it.
inline constexpr Qpn kQpnByProtocol{kQpnMask};

/// The global header of an IPv6 packet that begins with `header` and has `payload_bytes` behind it. False
/// when `header` is not an IPv6 header or states another length.
[[nodiscard]] bool global_from_ipv6(std::span<const std::byte, kIpv6HeaderBytes> header,
                                    uint32_t payload_bytes, GlobalHeaderWire& out) noexcept;
/// The IPv6 header of a frame that arrived in a cell with this global header.
[[nodiscard]] GlobalHeaderWire ipv6_from_global(const GlobalHeaderWire& global,
                                                uint32_t payload_bytes) noexcept;

}  // namespace weft
