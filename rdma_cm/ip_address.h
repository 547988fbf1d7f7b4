// rdma_cm/ip_address.h -- IP addresses with ports, as sockets have them and as the fabric's messages do.
#pragma once

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>

#include "messages/global_header.h"

namespace weft::rdma_cm {

struct IpAddress {
  uint8_t family = 0;  // 4 or 6; 0: none
  Gid ip{};            // an IPv4 address in its last four bytes
  uint16_t port = 0;
  uint32_t scope = 0;  // of a link-local IPv6 address; ours alone

  [[nodiscard]] bool is_any() const noexcept;
  /// 127.0.0.0/8 and ::1: within one host.
  [[nodiscard]] bool is_loopback() const noexcept;
  [[nodiscard]] bool is_multicast() const noexcept;
  /// The same address, whatever the ports.
  [[nodiscard]] bool same_ip(const IpAddress& other) const noexcept {
    return family == other.family && ip == other.ip;
  }
  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

[[nodiscard]] IpAddress make_ipv4(uint32_t address, uint16_t port = 0) noexcept;
[[nodiscard]] IpAddress loopback(uint8_t family) noexcept;
[[nodiscard]] std::optional<IpAddress> parse_ip(const std::string& text) noexcept;
[[nodiscard]] std::string to_string(const IpAddress& address);

/// Of AF_INET or AF_INET6, in the room of the larger; family 0 for any other.
[[nodiscard]] IpAddress from_sockaddr(const sockaddr_in6& in) noexcept;
/// All zero when there is none.
[[nodiscard]] sockaddr_in6 to_sockaddr(const IpAddress& address) noexcept;
/// Bytes of it that say something.
[[nodiscard]] uint16_t sockaddr_bytes(const IpAddress& address) noexcept;

}  // namespace weft::rdma_cm
