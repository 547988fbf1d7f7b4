#include "tools/capture/roce_frame.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/endian.h"

namespace weft::tools {
namespace {

constexpr uint8_t kUdp = 17;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;
constexpr size_t kUdpChecksumAt = 6;
constexpr size_t kBthReservedAt = 4;  // holds congestion bits, which routers change
constexpr uint8_t kTimeToLive = 64;

/// Tables of Ethernet's CRC-32 (reflected), for eight bytes per step: table[k] advances a byte by k further
/// places.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;
constexpr CrcTables kCrc = [] {
  CrcTables out{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320U : 0);
    out[0][byte] = crc;
  }
  for (size_t k = 1; k < out.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      out[k][byte] = (out[k - 1][byte] >> 8) ^ out[0][out[k - 1][byte] & 0xFF];
  return out;
}();

uint32_t crc32_step(uint32_t crc, std::byte byte) noexcept {
  return (crc >> 8) ^ kCrc[0][(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
}

uint32_t extend_crc32(uint32_t crc, std::span<const std::byte> bytes) noexcept {
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  for (; end - at >= 8; at += 8) {
    const uint64_t word = __builtin_bswap64(load_be<uint64_t>(at)) ^ crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kCrc[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; at != end; ++at) crc = crc32_step(crc, *at);
  return crc;
}

template <class T>
void put(FrameBytes& to, T value) {
  to.resize(to.size() + sizeof value);
  store_be(to.data() + to.size() - sizeof value, value);
}

void put(FrameBytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

void put_ethernet(FrameBytes& to, const RoceRoute& route, uint16_t type) {
  put(to, std::span<const std::byte>(route.destination_mac));
  put(to, std::span<const std::byte>(route.source_mac));
  put(to, type);
}

/// Adds 16-bit words for the Internet checksum; an odd last byte is the upper half of a word.
uint32_t sum_words(uint32_t sum, std::span<const std::byte> bytes) noexcept {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) sum += load_be<uint16_t>(bytes.data() + i);
  if (bytes.size() % 2 != 0) sum += static_cast<uint32_t>(bytes.back()) << 8;
  return sum;
}

uint16_t folded(uint32_t sum) noexcept {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void put_ipv4(FrameBytes& to, const RoceRoute& route, size_t udp_bytes) {
  const size_t at = to.size();
  put(to, uint16_t{0x4500});
  put(to, static_cast<uint16_t>(kIpv4Bytes + udp_bytes));
  put(to, uint32_t{0x4000});  // no identification; do not fragment
  put(to, kTimeToLive);
  put(to, kUdp);
  put(to, uint16_t{0});
  put(to, std::span<const std::byte>(route.source).last(4));
  put(to, std::span<const std::byte>(route.destination).last(4));
  store_be(to.data() + at + 10, folded(sum_words(0, std::span(to).subspan(at))));
}

void put_ipv6(FrameBytes& to, const RoceRoute& route, size_t udp_bytes) {
  put(to, 6U << 28 | route.class_and_flow);
  put(to, static_cast<uint16_t>(udp_bytes));
  put(to, kUdp);
  put(to, route.hop_limit);
  put(to, std::span<const std::byte>(route.source));
  put(to, std::span<const std::byte>(route.destination));
}

bool is_ipv6(std::span<const std::byte> frame) noexcept {
  return load_be<uint16_t>(frame.data() + 12) == kEtherTypeIpv6;
}

size_t ip_bytes(bool ipv6) noexcept {
  return ipv6 ? kIpv6Bytes : kIpv4Bytes;
}

/// UDP over IPv6 must have a checksum.
void put_udp_checksum(FrameBytes& frame) {
  const std::span<std::byte> ip = std::span(frame).subspan(kEthernetHeaderBytes);
  const std::span<std::byte> udp = ip.subspan(kIpv6Bytes);
  const uint32_t pseudo = sum_words(static_cast<uint32_t>(udp.size()) + kUdp, ip.subspan(8, 32));
  const uint16_t sum = folded(sum_words(pseudo, udp));
  store_be(udp.data() + kUdpChecksumAt, sum == 0 ? uint16_t{0xFFFF} : sum);
}

}  // namespace

void RoceHeaders::word(uint32_t value) {
  WEFT_CHECK(size_ + sizeof value <= kBytesMax, "headers of one RoCE frame");
  store_be(bytes_.data() + size_, value);
  size_ += sizeof value;
}

void RoceHeaders::wide(uint64_t value) {
  word(static_cast<uint32_t>(value >> 32));
  word(static_cast<uint32_t>(value));
}

size_t roce_headers_at(bool ipv6) noexcept {
  return kEthernetHeaderBytes + ip_bytes(ipv6) + kUdpBytes + kBthBytes;
}

FrameBytes make_roce_frame(const RoceRoute& route, const RoceBase& base, const RoceHeaders& headers,
                           std::span<const std::byte> payload) {
  const size_t pad = (4 - payload.size() % 4) % 4;
  const size_t udp = kUdpBytes + kBthBytes + headers.bytes().size() + payload.size() + pad + kIcrcBytes;
  FrameBytes out;
  out.reserve(kEthernetHeaderBytes + ip_bytes(route.ipv6) + udp);
  put_ethernet(out, route, route.ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4);
  if (route.ipv6)
    put_ipv6(out, route, udp);
  else
    put_ipv4(out, route, udp);
  put(out, route.source_port);
  put(out, kRocePort);
  put(out, static_cast<uint16_t>(udp));
  put(out, uint16_t{0});
  put(out, base.opcode);
  put(out, static_cast<uint8_t>((base.solicited ? 0x80U : 0U) | (base.migrated ? 0x40U : 0U) | pad << 4));
  put(out, base.pkey);
  put(out, base.dest_qpn & kQpnMask);
  put(out, (base.ack_wanted ? 0x8000'0000U : 0U) | (base.psn & Psn::kMask));
  put(out, headers.bytes());
  put(out, payload);
  out.resize(out.size() + pad + kIcrcBytes);
  return out;
}

void seal_roce_frame(FrameBytes& frame) {
  const std::array<std::byte, kIcrcBytes> icrc = roce_icrc(frame);
  std::copy(icrc.begin(), icrc.end(), frame.end() - kIcrcBytes);
  if (is_ipv6(frame)) put_udp_checksum(frame);
}

std::array<std::byte, kIcrcBytes> roce_icrc(std::span<const std::byte> frame) {
  constexpr std::byte kOnes{0xFF};
  const bool ipv6 = is_ipv6(frame);
  const size_t head_bytes = ip_bytes(ipv6) + kUdpBytes + kBthBytes;
  const std::span<const std::byte> covered =
      frame.subspan(kEthernetHeaderBytes, frame.size() - kEthernetHeaderBytes - kIcrcBytes);
  std::array<std::byte, 8 + kIpv6Bytes + kUdpBytes + kBthBytes> head{};
  std::fill_n(head.begin(), 8, kOnes);
  std::byte* const ip = head.data() + 8;
  std::copy_n(covered.begin(), head_bytes, ip);
  if (ipv6) {
    ip[0] |= std::byte{0x0F};  // traffic class and flow label
    ip[1] = ip[2] = ip[3] = ip[7] = kOnes;
  } else {
    ip[1] = ip[8] = ip[10] = ip[11] = kOnes;  // type of service, time to live, checksum
  }
  std::byte* const udp = ip + ip_bytes(ipv6);
  udp[kUdpChecksumAt] = udp[kUdpChecksumAt + 1] = udp[kUdpBytes + kBthReservedAt] = kOnes;
  uint32_t crc = extend_crc32(~0U, std::span<const std::byte>(head).first(8 + head_bytes));
  crc = ~extend_crc32(crc, covered.subspan(head_bytes));
  std::array<std::byte, kIcrcBytes> out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(crc >> (8 * i));
  return out;
}

FrameBytes make_ethernet_frame(const RoceRoute& route, uint16_t type, std::span<const std::byte> payload) {
  FrameBytes out;
  out.reserve(kEthernetHeaderBytes + payload.size());
  put_ethernet(out, route, type);
  put(out, payload);
  return out;
}

uint16_t roce_source_port(uint32_t source_qpn, uint32_t dest_qpn) noexcept {
  uint64_t mixed = uint64_t{source_qpn} * dest_qpn;
  mixed ^= mixed >> 20;
  mixed ^= mixed >> 40;
  const auto label = static_cast<uint32_t>(mixed & 0xFFFFF);
  return static_cast<uint16_t>(((label & 0x3FFF) ^ (label >> 14)) | 0xC000);
}

}  // namespace weft::tools
