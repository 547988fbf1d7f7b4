// rdma_cm/ip_address.h -- IP addresses with ports, converted between sockets and the fabric's messages.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

#include "messages/global_header.h"

namespace weft::rdma_cm {

struct IpAddress {
  uint8_t family = 0;  // 4 or 6; 0: none
  Gid ip{};            // an IPv4 address is in the last four bytes
  uint16_t port = 0;
  uint32_t scope = 0;  // interface of a link-local IPv6 address; has no meaning on other hosts

  [[nodiscard]] bool is_any() const noexcept;
  /// 127.0.0.0/8 and ::1, which stay within one host.
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_multicast() const noexcept;
  /// True for equal addresses with any ports.
  [[nodiscard]] bool same_ip(const IpAddress& other) const noexcept {
    return family == other.family && ip == other.ip;
  }
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

[[nodiscard]] IpAddress make_ipv4(uint32_t address, uint16_t port = 0) noexcept;
[[nodiscard]] IpAddress loopback(uint8_t family) noexcept;
/// The IPv4 address that an IPv6 address of ::ffff:0:0/96 stands for; any other address as it is.
[[nodiscard]] IpAddress without_mapping(const IpAddress& address) noexcept;
[[nodiscard]] std::optional<IpAddress> parse_ip(const std::string& text) noexcept;
[[nodiscard]] std::string to_string(const IpAddress& address);

/// Reads AF_INET or AF_INET6 from storage for the larger of both. Family 0 for any other.
[[nodiscard]] IpAddress from_sockaddr(const sockaddr_in6& in) noexcept;
/// All zero for family 0.
[[nodiscard]] sockaddr_in6 to_sockaddr(const IpAddress& address) noexcept;
/// Bytes of the sockaddr that are used.
[[nodiscard]] uint16_t sockaddr_bytes(const IpAddress& address) noexcept;

}  // namespace weft::rdma_cm
