#include "base/net/checksum.h"

#include <cstring>

#include "base/endian.h"
#include "base/net/ethernet.h"

namespace weft {

uint64_t checksum_add(uint64_t sum, std::span<const std::byte> data) noexcept {
  // Native-order 32-bit words keep four partial sums in 64 bits; ones' complement sums may be byte-swapped at
  // the end.
  const std::byte* at = data.data();
  size_t left = data.size();
  uint64_t native = 0;
  for (; left >= 8; at += 8, left -= 8) {
    uint32_t words[2];
    std::memcpy(words, at, sizeof words);
    native += uint64_t{words[0]} + words[1];
  }
  std::byte tail[8]{};
  if (left != 0) {
    std::memcpy(tail, at, left);
    uint32_t words[2];
    std::memcpy(words, tail, sizeof words);
    native += uint64_t{words[0]} + words[1];
  }
  while (native >> 16 != 0) native = (native & 0xFFFF) + (native >> 16);
  return sum + to_big(static_cast<uint16_t>(native));
}

uint16_t checksum_fold(uint64_t sum) noexcept {
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint64_t pseudo_header_sum(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                           uint32_t transport_bytes) noexcept {
  const std::span<const std::byte> addresses =
      ip_version == 4 ? std::span(ip + 12, 8) : std::span(ip + 8, 32);
  return checksum_add(uint64_t{protocol} + (transport_bytes & 0xFFFF) + (transport_bytes >> 16), addresses);
}

bool complete_checksum(std::span<std::byte> frame, uint32_t start, uint32_t offset) noexcept {
  if (start > frame.size() || frame.size() - start < 2 || offset > frame.size() - start - 2) return false;
  uint16_t result = checksum_fold(checksum_add(0, frame.subspan(start)));
  if (result == 0) result = 0xFFFF;  // the same number in ones' complement; 0 would say "no checksum" in UDP
  store_be(frame.data() + start + offset, result);
  return true;
}

void set_ipv4_checksum(std::byte* ip, uint32_t header_bytes) noexcept {
  store_be(ip + 10, uint16_t{0});
  store_be(ip + 10, checksum_fold(checksum_add(0, std::span(ip, header_bytes))));
}

void set_transport_checksum(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                            std::span<std::byte> transport, uint32_t field_offset) noexcept {
  store_be(transport.data() + field_offset, uint16_t{0});
  uint64_t sum = 0;
  if (protocol != kIpProtocolIcmp) {
    sum = pseudo_header_sum(ip, ip_version, protocol, static_cast<uint32_t>(transport.size()));
  }
  uint16_t result = checksum_fold(checksum_add(sum, transport));
  if (result == 0 && protocol == kIpProtocolUdp) result = 0xFFFF;
  store_be(transport.data() + field_offset, result);
}

bool transport_checksum_ok(const std::byte* ip, uint8_t ip_version, uint8_t protocol,
                           std::span<const std::byte> transport) noexcept {
  if (protocol == kIpProtocolUdp && ip_version == 4 && load_be<uint16_t>(transport.data() + 6) == 0)
    return true;
  uint64_t sum = 0;
  if (protocol != kIpProtocolIcmp) {
    sum = pseudo_header_sum(ip, ip_version, protocol, static_cast<uint32_t>(transport.size()));
  }
  return checksum_fold(checksum_add(sum, transport)) == 0;
}

}  // namespace weft
