// How it works: a written frame is gathered into the next free answer slot and turned into its own answer in
// place: addresses exchanged, type or ports changed, checksums corrected. A frame that gets no answer leaves
// the slot free.
#include "iou_driver/echo_nic.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "base/net/checksum.h"
#include "base/net/ethernet.h"

namespace weft::iou {
namespace {

constexpr uint32_t kArpBytes = 28;
constexpr uint16_t kArpRequest = 1;
constexpr uint16_t kArpReply = 2;
constexpr uint8_t kIcmpv6NeighbourSolicitation = 135;
constexpr uint8_t kIcmpv6NeighbourAdvertisement = 136;
constexpr uint32_t kNeighbourBytes = 24;  // type, code, checksum, flags, target
constexpr uint32_t kLinkAddressOption = 8;
constexpr uint32_t kIcmpHeaderBytes = 8;

/// Types of an echo in one of the two ICMPs.
struct IcmpEcho {
  uint8_t protocol;
  std::byte request;
  std::byte reply;
};
constexpr IcmpEcho kIcmpEcho{kIpProtocolIcmp, std::byte{8}, std::byte{0}};
constexpr IcmpEcho kIcmpv6Echo{kIpProtocolIcmpv6, std::byte{128}, std::byte{129}};

uint8_t byte_at(std::span<const std::byte> frame, uint32_t at) noexcept {
  return static_cast<uint8_t>(frame[at]);
}

void swap_bytes(std::byte* a, std::byte* b, size_t bytes) noexcept {
  std::swap_ranges(a, a + bytes, b);
}

/// Turns an echo request of ICMP or UDP into its answer, except for the checksum. Returns the checksum's
/// offset in `part`; 0 for any other packet.
uint32_t turn_echo(const IcmpEcho& icmp, uint8_t protocol, std::span<std::byte> part) noexcept {
  if (protocol == icmp.protocol && part[0] == icmp.request) {
    part[0] = icmp.reply;
    return 2;
  }
  if (protocol == kIpProtocolUdp && load_be<uint16_t>(part.data() + 2) == kUdpEchoPort) {
    swap_bytes(part.data(), part.data() + 2, 2);
    return 6;
  }
  return 0;
}

/// The part of the frame behind the IP header that the IP length covers; empty when lengths contradict.
std::span<std::byte> transport_part(std::span<std::byte> frame, uint32_t from, size_t end) noexcept {
  if (end > frame.size() || end < from) return {};
  return frame.subspan(from, end - from);
}

}  // namespace

EchoNic::EchoNic(const EchoNicConfig& config)
    : ModelPort("echo", config.nic_mac, {.most = config.mtu_bytes},
                kEthernetHeaderBytes + kVlanTagBytes + config.mtu_bytes),
      config_(config),
      slot_bytes_(kVnetBytes + kEthernetHeaderBytes + kVlanTagBytes + config.mtu_bytes + kLinkAddressOption),
      storage_(size_t{config.answers} * slot_bytes_),
      bytes_(config.answers) {}

FrameReadResult EchoNic::read_frame(std::span<std::byte> into) noexcept {
  if (used_ == 0) return {FrameIo::kEmpty, 0};
  const uint32_t bytes = bytes_[first_ % config_.answers];
  const std::byte* from = slot(first_);
  ++first_;
  --used_;
  if (bytes > into.size()) {
    counters_.add(PortCounter::kReadTooLong);
    return {FrameIo::kDropped, 0};
  }
  std::memcpy(into.data(), from, bytes);
  counters_.add(PortCounter::kFramesRead);
  counters_.add(PortCounter::kBytesRead, bytes - kVnetBytes);
  return {FrameIo::kOk, bytes};
}

FrameIo EchoNic::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  const size_t bytes = head.size() + rest.size();
  if (used_ == config_.answers) {
    counters_.add(PortCounter::kWriteBusy);
    return FrameIo::kBusy;
  }
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  if (bytes > kVnetBytes + info_.frame_bytes_max) {
    counters_.add(PortCounter::kWriteTooLong);
    return FrameIo::kDropped;
  }
  counters_.add(PortCounter::kFramesWritten);
  counters_.add(PortCounter::kBytesWritten, bytes - kVnetBytes);
  std::byte* to = slot(first_ + used_);
  std::memset(to, 0, kVnetBytes);
  std::memcpy(to + kVnetBytes, head.data() + kVnetBytes, head.size() - kVnetBytes);
  if (!rest.empty()) std::memcpy(to + head.size(), rest.data(), rest.size());
  bytes_[(first_ + used_) % config_.answers] = static_cast<uint32_t>(bytes);
  if (!answer(std::span(to + kVnetBytes, bytes - kVnetBytes))) {
    counters_.add(PortCounter::kNoReceiver);
    return FrameIo::kOk;
  }
  ++used_;
  return FrameIo::kOk;
}

bool EchoNic::answer(std::span<std::byte> frame) noexcept {
  const MacAddress to = destination_of(frame.data());
  if (to != config_.object_mac && !is_group(to)) return false;
  FrameLayout layout;
  if (!parse_frame(frame, layout)) return false;
  if (layout.ethertype == kEtherTypeArp) return answer_arp(frame, layout.network_offset);
  if (layout.transport_offset == 0) return false;
  if (layout.ip_version == 4) return answer_ipv4(frame, layout.network_offset, layout.transport_offset);
  return answer_ipv6(frame, layout.network_offset, layout.transport_offset);
}

void EchoNic::turn_addresses(std::span<std::byte> frame) noexcept {
  std::memcpy(frame.data(), frame.data() + 6, 6);
  std::memcpy(frame.data() + 6, config_.object_mac.data(), 6);
}

bool EchoNic::answer_arp(std::span<std::byte> frame, uint32_t at) noexcept {
  if (frame.size() < at + kArpBytes) return false;
  std::byte* arp = frame.data() + at;
  if (load_be<uint16_t>(arp) != 1 || load_be<uint16_t>(arp + 2) != kEtherTypeIpv4) return false;
  if (load_be<uint16_t>(arp + 6) != kArpRequest) return false;
  if (std::memcmp(arp + 24, config_.ipv4.data(), 4) != 0) return false;
  turn_addresses(frame);
  store_be(arp + 6, kArpReply);
  std::memcpy(arp + 18, arp + 8, 10);  // the sender becomes the target
  std::memcpy(arp + 8, config_.object_mac.data(), 6);
  std::memcpy(arp + 14, config_.ipv4.data(), 4);
  return true;
}

bool EchoNic::answer_ipv4(std::span<std::byte> frame, uint32_t at, uint32_t transport) noexcept {
  std::byte* ip = frame.data() + at;
  if (std::memcmp(ip + 16, config_.ipv4.data(), 4) != 0) return false;
  if ((load_be<uint16_t>(ip + 6) & 0x2000) != 0) return false;  // first fragment of several
  const uint8_t protocol = byte_at(frame, at + 9);
  const std::span<std::byte> part = transport_part(frame, transport, at + load_be<uint16_t>(ip + 2));
  if (part.size() < kIcmpHeaderBytes || !transport_checksum_ok(ip, 4, protocol, part)) return false;
  const uint32_t checksum_at = turn_echo(kIcmpEcho, protocol, part);
  if (checksum_at == 0) return false;
  turn_addresses(frame);
  swap_bytes(ip + 12, ip + 16, 4);
  ip[8] = std::byte{64};
  set_ipv4_checksum(ip, transport - at);
  set_transport_checksum(ip, 4, protocol, part, checksum_at);
  return true;
}

bool EchoNic::answer_ipv6(std::span<std::byte> frame, uint32_t at, uint32_t transport) noexcept {
  std::byte* ip = frame.data() + at;
  const uint8_t protocol = byte_at(frame, at + 6);
  const std::span<std::byte> part =
      transport_part(frame, transport, size_t{transport} + load_be<uint16_t>(ip + 4));
  if (part.size() < kIcmpHeaderBytes || !transport_checksum_ok(ip, 6, protocol, part)) return false;
  if (protocol == kIpProtocolIcmpv6 && part[0] == std::byte{kIcmpv6NeighbourSolicitation}) {
    return answer_neighbour(frame, at, part);
  }
  if (std::memcmp(ip + 24, config_.ipv6.data(), 16) != 0) return false;
  const uint32_t checksum_at = turn_echo(kIcmpv6Echo, protocol, part);
  if (checksum_at == 0) return false;
  turn_addresses(frame);
  swap_bytes(ip + 8, ip + 24, 16);
  ip[7] = std::byte{64};
  set_transport_checksum(ip, 6, protocol, part, checksum_at);
  return true;
}

/// RFC 4861 7.2.4: a solicited advertisement with the target link-layer address option.
bool EchoNic::answer_neighbour(std::span<std::byte> frame, uint32_t at, std::span<std::byte> icmp) noexcept {
  std::byte* ip = frame.data() + at;
  if (icmp.size() < kNeighbourBytes || ip[7] != std::byte{255}) return false;
  if (std::memcmp(icmp.data() + 8, config_.ipv6.data(), 16) != 0) return false;
  turn_addresses(frame);
  std::memcpy(ip + 24, ip + 8, 16);
  std::memcpy(ip + 8, config_.ipv6.data(), 16);
  store_be(ip + 4, static_cast<uint16_t>(kNeighbourBytes + kLinkAddressOption));
  std::byte* out = icmp.data();
  std::memset(out, 0, 8);
  out[0] = std::byte{kIcmpv6NeighbourAdvertisement};
  out[4] = std::byte{0x60};  // solicited, override
  out[24] = std::byte{2};    // target link-layer address, one unit of 8 bytes
  out[25] = std::byte{1};
  std::memcpy(out + 26, config_.object_mac.data(), 6);
  const std::span<std::byte> whole(out, kNeighbourBytes + kLinkAddressOption);
  set_transport_checksum(ip, 6, kIpProtocolIcmpv6, whole, 2);
  bytes_[(first_ + used_) % config_.answers] =
      static_cast<uint32_t>(kVnetBytes + at + kIpv6HeaderBytes + whole.size());
  return true;
}

}  // namespace weft::iou
