#include "base/net/ethernet.h"

#include <fmt/core.h>

#include <cstring>

#include "base/endian.h"

namespace weft {
namespace {

constexpr uint32_t kVlanTagsMax = 2;

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_ipv4(std::span<const std::byte> frame, FrameLayout& out) noexcept {
  const uint32_t at = out.network_offset;
  if (frame.size() < at + kIpv4HeaderBytesMin) return false;
  const auto first = static_cast<uint8_t>(frame[at]);
  const uint32_t header_bytes = (first & 0x0FU) * 4U;
  if (first >> 4 != 4 || header_bytes < kIpv4HeaderBytesMin || frame.size() < at + header_bytes) return false;
  out.ip_version = 4;
  out.protocol = static_cast<uint8_t>(frame[at + 9]);
  const uint16_t fragment = load_be<uint16_t>(frame.data() + at + 6);
  if ((fragment & 0x1FFF) == 0) out.transport_offset = at + header_bytes;
  return true;
}

bool parse_ipv6(std::span<const std::byte> frame, FrameLayout& out) noexcept {
  const uint32_t at = out.network_offset;
  if (frame.size() < at + kIpv6HeaderBytes || static_cast<uint8_t>(frame[at]) >> 4 != 6) return false;
  out.ip_version = 6;
  out.protocol = static_cast<uint8_t>(frame[at + 6]);
  out.transport_offset = at + kIpv6HeaderBytes;
  return true;
}

}  // namespace

std::string to_string(const MacAddress& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

std::optional<MacAddress> parse_mac(std::string_view text) noexcept {
  if (text.size() != 17) return std::nullopt;
  MacAddress mac{};
  for (size_t i = 0; i < mac.size(); ++i) {
    const int high = hex_digit(text[3 * i]);
    const int low = hex_digit(text[3 * i + 1]);
    if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':')) return std::nullopt;
    mac[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return mac;
}

MacAddress destination_of(const std::byte* frame) noexcept {
  MacAddress mac;
  std::memcpy(mac.data(), frame, mac.size());
  return mac;
}

MacAddress source_of(const std::byte* frame) noexcept {
  MacAddress mac;
  std::memcpy(mac.data(), frame + mac.size(), mac.size());
  return mac;
}

bool parse_frame(std::span<const std::byte> frame, FrameLayout& out) noexcept {
  if (frame.size() < kEthernetHeaderBytes) return false;
  FrameLayout layout;
  layout.ethertype = load_be<uint16_t>(frame.data() + 12);
  layout.network_offset = kEthernetHeaderBytes;
  for (uint32_t tags = 0; tags < kVlanTagsMax; ++tags) {
    if (layout.ethertype != kEtherTypeVlan && layout.ethertype != kEtherTypeQinq) break;
    if (frame.size() < layout.network_offset + kVlanTagBytes) return false;
    layout.ethertype = load_be<uint16_t>(frame.data() + layout.network_offset + 2);
    layout.network_offset += kVlanTagBytes;
  }
  if (layout.ethertype == kEtherTypeIpv4 && !parse_ipv4(frame, layout)) return false;
  if (layout.ethertype == kEtherTypeIpv6 && !parse_ipv6(frame, layout)) return false;
  out = layout;
  return true;
}

}  // namespace weft
