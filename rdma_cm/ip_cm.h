// rdma_cm/ip_cm.h -- the first 36 bytes of a request's private data if its service is an IP port
// (InfiniBand's annex 11, "RDMA IP CM service"), and the service ids of IP ports.
//
//   0 version 8 (0)   1 IP version 4 in the top four bits   2 source port 16
//   4 source address 128, an IPv4 address in its last four bytes   20 destination address 128
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "messages/global_header.h"

namespace weft::rdma_cm {

inline constexpr size_t kIpCmBytes = 36;

struct IpCmHeader {
  uint8_t family = 4;  // 4 or 6
  uint16_t source_port = 0;
  Gid source{};
  Gid destination{};
  friend bool operator==(const IpCmHeader&, const IpCmHeader&) = default;
};
void encode_ip_cm(const IpCmHeader& header, std::span<std::byte, kIpCmBytes> out) noexcept;
/// False for another version or family.
[[nodiscard]] bool decode_ip_cm(std::span<const std::byte, kIpCmBytes> in, IpCmHeader& out) noexcept;

/// The service id of a port in a port space (RDMA_PS_TCP ...).
[[nodiscard]] constexpr uint64_t ip_service(uint16_t port_space, uint16_t port) noexcept {
  return uint64_t{port_space} << 16 | port;
}

}  // namespace weft::rdma_cm
