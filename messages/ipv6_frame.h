// messages/ipv6_frame.h -- IPv6 packets as raw frames of the fabric: the IPv6 header and the global header of
// a cell have the same fields in the same places and become each other, but for the payload length, which in
// a cell counts the CRC that ends it (SAN-XPORT-15).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ethernet.h"
#include "messages/global_header.h"
#include "messages/ids.h"

namespace weft {

static_assert(kIpv6HeaderBytes == sizeof(GlobalHeaderWire));

/// A raw frame carries this instead of a QPN: the QPs that registered for its next header and destination
/// take it.
inline constexpr Qpn kQpnByProtocol{kQpnMask};

/// The global header of an IPv6 packet whose first bytes are `header` and which has `payload_bytes` behind
/// them. False when it is no IPv6 header or tells another length.
[[nodiscard]] bool global_from_ipv6(std::span<const std::byte, kIpv6HeaderBytes> header,
                                    uint32_t payload_bytes, GlobalHeaderWire& out) noexcept;
/// The IPv6 header of a frame that came in a cell with this global header.
[[nodiscard]] GlobalHeaderWire ipv6_from_global(const GlobalHeaderWire& global,
                                                uint32_t payload_bytes) noexcept;

}  // namespace weft
