#include "rdma_cm/ip_address.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "base/endian.h"

namespace weft::rdma_cm {
namespace {

constexpr size_t kIpv4At = 12;

}  // namespace

bool IpAddress::is_any() const noexcept {
  return ip == Gid{};
}

bool IpAddress::is_loopback() const noexcept {
  return (family == 4 && ip[kIpv4At] == std::byte{127}) || (family == 6 && ip == loopback(6).ip);
}

bool IpAddress::is_multicast() const noexcept {
  if (family == 4) return (ip[kIpv4At] & std::byte{0xF0}) == std::byte{0xE0};
  return family == 6 && ip[0] == std::byte{0xFF};
}

IpAddress make_ipv4(uint32_t address, uint16_t port) noexcept {
  IpAddress out{.family = 4, .port = port};
  store_be(&out.ip[kIpv4At], address);
  return out;
}

IpAddress loopback(uint8_t family) noexcept {
  if (family == 4) return make_ipv4(INADDR_LOOPBACK);
  IpAddress out{.family = 6};
  out.ip[15] = std::byte{1};
  return out;
}

IpAddress without_mapping(const IpAddress& address) noexcept {
  IpAddress out = address;
  out.family = 4;
  out.ip[10] = out.ip[11] = std::byte{0};
  const bool zeros = std::all_of(out.ip.begin(), out.ip.begin() + kIpv4At,
                                 [](std::byte one) { return one == std::byte{0}; });
  const bool mapped = address.ip[10] == std::byte{0xFF} && address.ip[11] == std::byte{0xFF};
  return address.family == 6 && mapped && zeros ? out : address;
}

std::optional<IpAddress> parse_ip(const std::string& text) noexcept {
  IpAddress out{.family = 4};
  if (inet_pton(AF_INET, text.c_str(), &out.ip[kIpv4At]) == 1) return out;
  out = {.family = 6};
  if (inet_pton(AF_INET6, text.c_str(), out.ip.data()) == 1) return out;
  return {};
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "-";
  const int family = address.family == 4 ? AF_INET : AF_INET6;
  if (address.family != 0)
    inet_ntop(family, &address.ip[address.family == 4 ? kIpv4At : 0], text, sizeof text);
  return std::string(text) + " port " + std::to_string(address.port);
}

IpAddress from_sockaddr(const sockaddr_in6& in) noexcept {
  if (in.sin6_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &in, sizeof v4);
    return make_ipv4(ntohl(v4.sin_addr.s_addr), ntohs(v4.sin_port));
  }
  if (in.sin6_family != AF_INET6) return {};
  IpAddress out{.family = 6, .port = ntohs(in.sin6_port), .scope = in.sin6_scope_id};
  std::memcpy(out.ip.data(), &in.sin6_addr, out.ip.size());
  return out;
}

sockaddr_in6 to_sockaddr(const IpAddress& address) noexcept {
  sockaddr_in6 out{};
  if (address.family == 4) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, &address.ip[kIpv4At], sizeof v4.sin_addr);
    std::memcpy(&out, &v4, sizeof v4);
  } else if (address.family == 6) {
    out.sin6_family = AF_INET6;
    out.sin6_port = htons(address.port);
    out.sin6_scope_id = address.scope;
    std::memcpy(&out.sin6_addr, address.ip.data(), sizeof out.sin6_addr);
  }
  return out;
}

uint16_t sockaddr_bytes(const IpAddress& address) noexcept {
  return address.family == 4 ? sizeof(sockaddr_in) : address.family == 6 ? sizeof(sockaddr_in6) : 0;
}

}  // namespace weft::rdma_cm
