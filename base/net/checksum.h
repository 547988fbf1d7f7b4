// base/net/checksum.h -- the Internet checksum (RFC 1071) of IPv4, ICMP, UDP and TCP, for frames that this
// process makes or whose sender left the checksum to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// Adds `data` to a running sum; only the last piece of a sum may have an odd length.
[[nodiscard]] uint64_t checksum_add(uint64_t sum, std::span<const std::byte> data) noexcept;
/// The 16-bit ones' complement of a running sum, in host order.
[[nodiscard]] uint16_t checksum_fold(uint64_t sum) noexcept;

/// Sum of the pseudo header of the IP header at `ip` (20 or 40 bytes readable) for a transport part of
/// `transport_bytes`.
[[nodiscard]] uint64_t pseudo_header_sum(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                                         uint32_t transport_bytes) noexcept;

/// Fills in a checksum that the sender left open: sums from `start` to the end of `frame` and stores the
/// result at `start + offset`. That field already holds the sum of the pseudo header. False if it lies
/// outside the frame.
[[nodiscard]] bool complete_checksum(std::span<std::byte> frame, uint32_t start, uint32_t offset) noexcept;

/// Recomputes the header checksum of an IPv4 header of `header_bytes`.
void set_ipv4_checksum(std::byte* ip, uint32_t header_bytes) noexcept;
/// Computes the checksum of a whole transport part (UDP, TCP, ICMP, ICMPv6) and stores it `field_offset`
/// bytes into it. `transport` ends where the packet ends. IPv4 ICMP has no pseudo header.
void set_transport_checksum(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                            std::span<std::byte> transport, uint32_t field_offset) noexcept;
/// True when the sum over `transport` is right (a UDP checksum of 0 over IPv4 counts as right).
[[nodiscard]] bool transport_checksum_ok(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                                         std::span<const std::byte> transport) noexcept;

}  // namespace weft
