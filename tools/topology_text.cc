#include "tools/topology_text.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace weft::tools {
namespace {

struct IpAddress {
  std::array<uint8_t, 16> raw{};  // network order; IPv4 in the first four
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

/// The whole of `digits` is a decimal number up to `highest`.
bool parse_digits(std::string_view digits, uint32_t highest, uint32_t& out) {
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return fault == std::errc() && end == digits.data() + digits.size() && out <= highest;
}

bool parse_prefix(const std::string& text, Prefix& out) {
  const size_t slash = text.find('/');
  return slash != std::string::npos && parse_ip(text.substr(0, slash), out.ip) &&
         parse_digits(std::string_view(text).substr(slash + 1), out.ip.bytes * 8, out.bits);
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

bool valid_name(std::string_view name, size_t bytes_max) {
  if (name.empty() || name.size() > bytes_max || name.front() == '-' || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

bool valid_ip(const std::string& text) {
  IpAddress ip;
  return parse_ip(text, ip);
}

bool valid_prefix(const std::string& text) {
  Prefix prefix;
  return parse_prefix(text, prefix);
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
  if (endpoint.starts_with("ipc:///")) return endpoint.size() > 7 && endpoint.size() < 100;
  if (!endpoint.starts_with("tcp://")) return false;
  const size_t colon = endpoint.rfind(':');
  uint32_t port = 0;
  return colon >= 7 && parse_digits(endpoint.substr(colon + 1), 65535, port) && port != 0;
}

}  // namespace weft::tools
