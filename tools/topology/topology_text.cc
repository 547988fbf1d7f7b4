#include "tools/topology/topology_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/parse_number.h"
#include "node/spec_values.h"

namespace weft::tools {
namespace {

struct IpAddress {
  std::array<uint8_t, 16> raw{};  // network byte order; an IPv4 address has the first four bytes
  uint32_t bytes = 0;             // 4 or 16
};

struct Prefix {
  IpAddress ip;
  uint32_t bits = 0;
};

bool parse_ip(const std::string& text, IpAddress& out) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, text.c_str(), out.raw.data()) != 1) continue;
    out.bytes = family == AF_INET ? 4 : 16;
    return true;
  }
  return false;
}

bool parse_prefix(const std::string& text, Prefix& out) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || !parse_ip(text.substr(0, slash), out.ip)) return false;
  out.bits = parse_number<uint32_t>(std::string_view(text).substr(slash + 1)).value_or(UINT32_MAX);
  return out.bits <= out.ip.bytes * 8;
}

bool holds(const Prefix& network, const IpAddress& ip) {
  if (network.ip.bytes != ip.bytes) return false;
  for (uint32_t bit = 0; bit < network.bits; ++bit) {
    const int differing = network.ip.raw[bit / 8] ^ ip.raw[bit / 8];
    if ((differing >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

}  // namespace

bool valid_ip(const std::string& text) {
  IpAddress ip;
  return parse_ip(text, ip);
}

bool valid_prefix(const std::string& text) {
  Prefix prefix;
  return parse_prefix(text, prefix);
}

std::string address_of(const std::string& prefix) {
  Prefix parsed;
  if (!parse_prefix(prefix, parsed)) return prefix;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = parsed.ip.bytes == 4 ? AF_INET : AF_INET6;
  return inet_ntop(family, parsed.ip.raw.data(), text.data(), text.size());
}

bool reaches_gateway(const std::vector<std::string>& addresses, const std::string& gateway) {
  IpAddress ip;
  if (!parse_ip(gateway, ip)) return false;
  const bool link_local = ip.bytes == 16 && ip.raw[0] == 0xFE && (ip.raw[1] & 0xC0) == 0x80;
  return link_local || std::any_of(addresses.begin(), addresses.end(), [&ip](const std::string& address) {
           Prefix network;
           return parse_prefix(address, network) && holds(network, ip);
         });
}

bool valid_endpoint(std::string_view endpoint) {
  if (endpoint.starts_with("ipc://") && !endpoint.starts_with("ipc:///")) return false;
  return node::valid_zmq_endpoint(endpoint);
}

}  // namespace weft::tools
