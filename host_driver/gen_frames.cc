#include "host_driver/gen_frames.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/net/checksum.h"

namespace weft::host {
namespace {

constexpr uint16_t kMagic = 0x5747;  // "WG"
constexpr uint16_t kUdpEcho = 7;
constexpr uint16_t kUdpSource = 0x7700;
constexpr uint16_t kIcmpIdentifier = 0x5747;
constexpr uint32_t kArpBytes = 28;
constexpr uint32_t kNeighbourBytes = 32;  // with one link-layer address option
constexpr uint32_t kIcmpHeaderBytes = 8;

/// One word of the pattern: a Weyl sequence started by run and sequence.
constexpr uint64_t kPatternStep = 0x9E3779B97F4A7C15ULL;
uint64_t pattern_start(const GenStamp& stamp) noexcept {
  uint64_t x = (uint64_t{stamp.run} << 40) ^ (stamp.sequence * 0xBF58476D1CE4E5B9ULL);
  x ^= x >> 29;
  return x * 0x94D049BB133111EBULL;
}

void fill_pattern(const GenStamp& stamp, std::span<std::byte> out) noexcept {
  uint64_t word = pattern_start(stamp);
  size_t at = 0;
  for (; at + 8 <= out.size(); at += 8, word += kPatternStep) store_be(out.data() + at, word);
  if (at < out.size()) {
    std::byte tail[8];
    store_be(tail, word);
    std::memcpy(out.data() + at, tail, out.size() - at);
  }
}

bool pattern_ok(const GenStamp& stamp, std::span<const std::byte> in) noexcept {
  uint64_t word = pattern_start(stamp);
  uint64_t wrong = 0;
  size_t at = 0;
  for (; at + 8 <= in.size(); at += 8, word += kPatternStep)
    wrong |= load_be<uint64_t>(in.data() + at) ^ word;
  if (wrong != 0) return false;
  std::byte tail[8];
  store_be(tail, word);
  return at == in.size() || std::memcmp(in.data() + at, tail, in.size() - at) == 0;
}

uint32_t stamp_crc(std::span<const std::byte> body) noexcept {
  const uint32_t head = crc32c_extend(0, body.data(), kGenStampBytes - 4);
  return crc32c_extend(head, body.data() + kGenStampBytes, body.size() - kGenStampBytes);
}

void write_stamp(const GenStamp& stamp, std::span<std::byte> body) noexcept {
  store_be(body.data(), kMagic);
  store_be(body.data() + 2, stamp.run);
  store_be(body.data() + 4, stamp.sequence);
  fill_pattern(stamp, body.subspan(kGenStampBytes));
  store_be(body.data() + 12, stamp_crc(body));
}

void write_ethernet(std::byte* to, const MacAddress& destination, const MacAddress& source,
                    uint16_t type) noexcept {
  std::memcpy(to, destination.data(), 6);
  std::memcpy(to + 6, source.data(), 6);
  store_be(to + 12, type);
}

void write_ipv4(std::byte* ip, const GenStation& from, const GenStation& to, uint8_t protocol, uint32_t bytes,
                uint64_t sequence) noexcept {
  std::memset(ip, 0, kIpv4HeaderBytesMin);
  ip[0] = std::byte{0x45};
  store_be(ip + 2, static_cast<uint16_t>(bytes));
  store_be(ip + 4, static_cast<uint16_t>(sequence));
  ip[6] = std::byte{0x40};
  ip[8] = std::byte{64};
  ip[9] = std::byte{protocol};
  std::memcpy(ip + 12, from.ipv4.data(), 4);
  std::memcpy(ip + 16, to.ipv4.data(), 4);
  set_ipv4_checksum(ip, kIpv4HeaderBytesMin);
}

void write_ipv6(std::byte* ip, const GenStation& from, std::span<const uint8_t, 16> to, uint8_t next_header,
                uint32_t payload_bytes, uint8_t hop_limit) noexcept {
  std::memset(ip, 0, kIpv6HeaderBytes);
  ip[0] = std::byte{0x60};
  store_be(ip + 4, static_cast<uint16_t>(payload_bytes));
  ip[6] = std::byte{next_header};
  ip[7] = std::byte{hop_limit};
  std::memcpy(ip + 8, from.ipv6.data(), 16);
  std::memcpy(ip + 24, to.data(), 16);
}

void write_arp(std::byte* arp, uint16_t operation, const GenStation& sender, const MacAddress& target_mac,
               const std::byte* target_ip) noexcept {
  store_be(arp, uint16_t{1});
  store_be(arp + 2, kEtherTypeIpv4);
  arp[4] = std::byte{6};
  arp[5] = std::byte{4};
  store_be(arp + 6, operation);
  std::memcpy(arp + 8, sender.mac.data(), 6);
  std::memcpy(arp + 14, sender.ipv4.data(), 4);
  std::memcpy(arp + 18, target_mac.data(), 6);
  std::memcpy(arp + 24, target_ip, 4);
}

uint32_t build_arp(const GenStation& from, const GenStation& to, std::span<std::byte> out) noexcept {
  write_ethernet(out.data(), kMacBroadcast, from.mac, kEtherTypeArp);
  std::byte target[4];
  std::memcpy(target, to.ipv4.data(), 4);
  write_arp(out.data() + kEthernetHeaderBytes, 1, from, kMacNone, target);
  return kEthernetHeaderBytes + kArpBytes;
}

uint32_t build_solicitation(const GenStation& from, const GenStation& to, std::span<std::byte> out) noexcept {
  const MacAddress group{0x33, 0x33, 0xFF, to.ipv6[13], to.ipv6[14], to.ipv6[15]};
  const std::array<uint8_t, 16> solicited{0xFF, 2, 0, 0, 0,    0,           0,           0,
                                          0,    0, 0, 1, 0xFF, to.ipv6[13], to.ipv6[14], to.ipv6[15]};
  write_ethernet(out.data(), group, from.mac, kEtherTypeIpv6);
  std::byte* ip = out.data() + kEthernetHeaderBytes;
  write_ipv6(ip, from, solicited, kIpProtocolIcmpv6, kNeighbourBytes, 255);
  std::byte* icmp = ip + kIpv6HeaderBytes;
  std::memset(icmp, 0, kNeighbourBytes);
  icmp[0] = std::byte{135};
  std::memcpy(icmp + 8, to.ipv6.data(), 16);
  icmp[24] = std::byte{1};
  icmp[25] = std::byte{1};
  std::memcpy(icmp + 26, from.mac.data(), 6);
  set_transport_checksum(ip, 6, kIpProtocolIcmpv6, std::span(icmp, kNeighbourBytes), 2);
  return kEthernetHeaderBytes + kIpv6HeaderBytes + kNeighbourBytes;
}

void write_transport(GenKind kind, std::byte* ip, uint8_t version, std::span<std::byte> part,
                     const GenStamp& stamp) noexcept {
  std::memset(part.data(), 0, kIcmpHeaderBytes);
  uint8_t protocol = kIpProtocolUdp;
  if (kind == GenKind::kUdp) {
    store_be(part.data(), kUdpSource);
    store_be(part.data() + 2, kUdpEcho);
    store_be(part.data() + 4, static_cast<uint16_t>(part.size()));
  } else {
    protocol = version == 4 ? kIpProtocolIcmp : kIpProtocolIcmpv6;
    part[0] = version == 4 ? std::byte{8} : std::byte{128};
    store_be(part.data() + 4, kIcmpIdentifier);
    store_be(part.data() + 6, static_cast<uint16_t>(stamp.sequence));
  }
  write_stamp(stamp, part.subspan(kIcmpHeaderBytes));
  set_transport_checksum(ip, version, protocol, part, kind == GenKind::kUdp ? 6 : 2);
}

GenAnswer check_arp(std::span<const std::byte> frame, uint32_t at, const GenStation& self,
                    const GenStation& peer) noexcept {
  if (frame.size() < at + kArpBytes) return {};
  const std::byte* arp = frame.data() + at;
  const bool ours = load_be<uint16_t>(arp + 6) == 2 && std::memcmp(arp + 14, peer.ipv4.data(), 4) == 0 &&
                    std::memcmp(arp + 24, self.ipv4.data(), 4) == 0;
  if (!ours) return {};
  GenAnswer answer{.verdict = GenVerdict::kGood, .kind = GenKind::kArp, .stamp = {}, .answered_by = {}};
  std::memcpy(answer.answered_by.data(), arp + 8, 6);
  return answer;
}

GenAnswer check_advertisement(std::span<const std::byte> icmp, const GenStation& peer) noexcept {
  if (icmp.size() < kNeighbourBytes || std::memcmp(icmp.data() + 8, peer.ipv6.data(), 16) != 0) return {};
  GenAnswer answer{.verdict = GenVerdict::kGood, .kind = GenKind::kNeighbour, .stamp = {}, .answered_by = {}};
  std::memcpy(answer.answered_by.data(), icmp.data() + 26, 6);
  return answer;
}

GenAnswer check_stamp(GenKind kind, std::span<const std::byte> body, uint16_t run) noexcept {
  if (body.size() < kGenStampBytes || load_be<uint16_t>(body.data()) != kMagic) return {};
  GenAnswer answer{.verdict = GenVerdict::kCorrupted, .kind = kind, .stamp = {}, .answered_by = {}};
  answer.stamp = {.run = load_be<uint16_t>(body.data() + 2), .sequence = load_be<uint64_t>(body.data() + 4)};
  const bool header = load_be<uint32_t>(body.data() + 12) == stamp_crc(body);
  if (header && answer.stamp.run != run) return {};  // late answer to an earlier run
  if (header && pattern_ok(answer.stamp, body.subspan(kGenStampBytes))) answer.verdict = GenVerdict::kGood;
  return answer;
}

GenAnswer check_transport(std::span<const std::byte> frame, const FrameLayout& layout, const GenStation& peer,
                          uint16_t run) noexcept {
  const std::byte* ip = frame.data() + layout.network_offset;
  const size_t end = layout.ip_version == 4 ? size_t{layout.network_offset} + load_be<uint16_t>(ip + 2)
                                            : size_t{layout.transport_offset} + load_be<uint16_t>(ip + 4);
  if (end > frame.size() || end < size_t{layout.transport_offset} + kIcmpHeaderBytes) return {};
  const std::span<const std::byte> part =
      frame.subspan(layout.transport_offset, end - layout.transport_offset);
  GenKind kind = GenKind::kCount;
  if (layout.protocol == kIpProtocolUdp && load_be<uint16_t>(part.data()) == kUdpEcho) kind = GenKind::kUdp;
  if (layout.protocol == kIpProtocolIcmp && part[0] == std::byte{0}) kind = GenKind::kIcmp;
  if (layout.protocol == kIpProtocolIcmpv6 && part[0] == std::byte{129}) kind = GenKind::kIcmpv6;
  if (layout.protocol == kIpProtocolIcmpv6 && part[0] == std::byte{136})
    return check_advertisement(part, peer);
  if (kind == GenKind::kCount) return {};
  GenAnswer answer = check_stamp(kind, part.subspan(kIcmpHeaderBytes), run);
  if (answer.verdict == GenVerdict::kGood &&
      !transport_checksum_ok(ip, layout.ip_version, layout.protocol, part)) {
    answer.verdict = GenVerdict::kCorrupted;
  }
  return answer;
}

}  // namespace

uint32_t build_request(GenKind kind, const GenStation& from, const GenStation& to, uint32_t frame_bytes,
                       const GenStamp& stamp, std::span<std::byte> out) noexcept {
  if (out.size() < kGenResolutionBytesMax) return 0;
  if (kind == GenKind::kArp) return build_arp(from, to, out);
  if (kind == GenKind::kNeighbour) return build_solicitation(from, to, out);
  const uint8_t version = kind == GenKind::kIcmpv6 ? 6 : 4;
  frame_bytes = std::max(frame_bytes, version == 4 ? kGenFrameBytesMin : kGenFrameBytesMinIpv6);
  if (frame_bytes > out.size()) return 0;
  const uint32_t header = version == 4 ? kIpv4HeaderBytesMin : kIpv6HeaderBytes;
  const uint32_t transport = kEthernetHeaderBytes + header;
  write_ethernet(out.data(), to.mac, from.mac, version == 4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
  std::byte* ip = out.data() + kEthernetHeaderBytes;
  if (version == 4) {
    const uint8_t protocol = kind == GenKind::kUdp ? kIpProtocolUdp : kIpProtocolIcmp;
    write_ipv4(ip, from, to, protocol, frame_bytes - kEthernetHeaderBytes, stamp.sequence);
  } else {
    write_ipv6(ip, from, to.ipv6, kIpProtocolIcmpv6, frame_bytes - transport, 64);
  }
  write_transport(kind, ip, version, out.subspan(transport, frame_bytes - transport), stamp);
  return frame_bytes;
}

GenAnswer check_answer(std::span<const std::byte> frame, const GenStation& self, const GenStation& peer,
                       uint16_t run) noexcept {
  FrameLayout layout;
  if (frame.size() < kEthernetHeaderBytes || destination_of(frame.data()) != self.mac) return {};
  if (!parse_frame(frame, layout)) return {};
  if (layout.ethertype == kEtherTypeArp) return check_arp(frame, layout.network_offset, self, peer);
  if (layout.transport_offset == 0) return {};
  return check_transport(frame, layout, peer, run);
}

uint32_t build_resolution_answer(std::span<const std::byte> frame, const GenStation& self,
                                 std::span<std::byte> out) noexcept {
  FrameLayout layout;
  if (out.size() < kGenResolutionBytesMax || !parse_frame(frame, layout)) return 0;
  if (layout.ethertype == kEtherTypeArp && frame.size() >= layout.network_offset + kArpBytes) {
    const std::byte* arp = frame.data() + layout.network_offset;
    if (load_be<uint16_t>(arp + 6) != 1 || std::memcmp(arp + 24, self.ipv4.data(), 4) != 0) return 0;
    const MacAddress asker = source_of(frame.data());
    write_ethernet(out.data(), asker, self.mac, kEtherTypeArp);
    write_arp(out.data() + kEthernetHeaderBytes, 2, self, asker, arp + 14);
    return kEthernetHeaderBytes + kArpBytes;
  }
  const bool solicitation =
      layout.protocol == kIpProtocolIcmpv6 && layout.transport_offset != 0 &&
      frame.size() >= layout.transport_offset + 24 && frame[layout.transport_offset] == std::byte{135} &&
      std::memcmp(frame.data() + layout.transport_offset + 8, self.ipv6.data(), 16) == 0;
  if (!solicitation) return 0;
  write_ethernet(out.data(), source_of(frame.data()), self.mac, kEtherTypeIpv6);
  std::byte* ip = out.data() + kEthernetHeaderBytes;
  std::array<uint8_t, 16> asker{};
  std::memcpy(asker.data(), frame.data() + layout.network_offset + 8, 16);
  write_ipv6(ip, self, asker, kIpProtocolIcmpv6, kNeighbourBytes, 255);
  std::byte* icmp = ip + kIpv6HeaderBytes;
  std::memset(icmp, 0, kNeighbourBytes);
  icmp[0] = std::byte{136};
  icmp[4] = std::byte{0x60};
  std::memcpy(icmp + 8, self.ipv6.data(), 16);
  icmp[24] = std::byte{2};
  icmp[25] = std::byte{1};
  std::memcpy(icmp + 26, self.mac.data(), 6);
  set_transport_checksum(ip, 6, kIpProtocolIcmpv6, std::span(icmp, kNeighbourBytes), 2);
  return kEthernetHeaderBytes + kIpv6HeaderBytes + kNeighbourBytes;
}

}  // namespace weft::host
