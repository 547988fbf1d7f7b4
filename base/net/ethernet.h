// base/net/ethernet.h -- Ethernet, ARP, IP, UDP and TCP headers as far as the drivers look into a frame:
// addresses, VLAN tags, where the network and transport headers begin. Reads nothing outside the span it is
// given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/net/frame_port.h"

namespace weft {

inline constexpr uint16_t kEtherTypeIpv4 = 0x0800;
inline constexpr uint16_t kEtherTypeArp = 0x0806;
inline constexpr uint16_t kEtherTypeVlan = 0x8100;
inline constexpr uint16_t kEtherTypeIpv6 = 0x86DD;
inline constexpr uint16_t kEtherTypeQinq = 0x88A8;
inline constexpr uint8_t kIpProtocolIcmp = 1;
inline constexpr uint8_t kIpProtocolTcp = 6;
inline constexpr uint8_t kIpProtocolUdp = 17;
inline constexpr uint8_t kIpProtocolIcmpv6 = 58;
inline constexpr uint32_t kVlanTagBytes = 4;
inline constexpr uint32_t kIpv4HeaderBytesMin = 20;
inline constexpr uint32_t kIpv6HeaderBytes = 40;
inline constexpr uint32_t kUdpHeaderBytes = 8;
inline constexpr uint32_t kTcpHeaderBytesMin = 20;

inline constexpr MacAddress kMacBroadcast{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
inline constexpr MacAddress kMacNone{};

[[nodiscard]] constexpr bool is_group(const MacAddress& mac) noexcept {
  return (mac[0] & 1U) != 0;
}
[[nodiscard]] constexpr bool is_broadcast(const MacAddress& mac) noexcept {
  return mac == kMacBroadcast;
}
/// An address that one station may own: neither a group nor zero.
[[nodiscard]] constexpr bool is_station(const MacAddress& mac) noexcept {
  return !is_group(mac) && mac != kMacNone;
}

/// "02:00:00:00:00:2a".
[[nodiscard]] std::string to_string(const MacAddress& mac);
/// Empty unless `text` is six hexadecimal pairs with colons.
[[nodiscard]] std::optional<MacAddress> parse_mac(std::string_view text) noexcept;

/// Both addresses of a frame of at least kEthernetHeaderBytes.
[[nodiscard]] MacAddress destination_of(const std::byte* frame) noexcept;
[[nodiscard]] MacAddress source_of(const std::byte* frame) noexcept;

/// Where the parts of a frame begin. Offsets count from the first byte of the Ethernet header.
struct FrameLayout {
  uint16_t ethertype = 0;         // behind all VLAN tags
  uint32_t network_offset = 0;    // first byte behind Ethernet header and tags
  uint8_t ip_version = 0;         // 4, 6, or 0 when it is not IP
  uint8_t protocol = 0;           // IP protocol; IPv6 extension headers are not walked
  uint32_t transport_offset = 0;  // 0 when there is none: not IP, a later fragment, or cut short
};
/// False when the frame is shorter than its own headers say.
[[nodiscard]] bool parse_frame(std::span<const std::byte> frame, FrameLayout& out) noexcept;

}  // namespace weft
