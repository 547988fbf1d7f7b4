// How it works: the headers of the big frame are copied in front of each piece of its payload, then
// corrected: IPv4 total length and identification, IPv6 payload length, TCP sequence number and flags, UDP
// length, and all checksums.
#include "base/net/segmenter.h"

#include <algorithm>
#include <cstring>

#include "base/endian.h"
#include "base/net/checksum.h"

namespace weft {
namespace {

constexpr uint8_t kTcpFin = 0x01;
constexpr uint8_t kTcpPush = 0x08;
constexpr uint8_t kTcpCwr = 0x80;

}  // namespace

Segmenter::Segmenter() : frame_(kSegmenterBytesMax) {}

bool Segmenter::start(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  active_ = false;
  const size_t bytes = head.size() + rest.size();
  if (head.size() < kVnetBytes + kEthernetHeaderBytes || bytes > frame_.size()) return false;
  vnet_ = load_vnet(head.data());
  bytes_ = static_cast<uint32_t>(bytes - kVnetBytes);
  std::memcpy(frame_.data(), head.data() + kVnetBytes, head.size() - kVnetBytes);
  if (!rest.empty()) std::memcpy(frame_.data() + head.size() - kVnetBytes, rest.data(), rest.size());
  const std::span<std::byte> frame(frame_.data(), bytes_);
  offset_ = index_ = 0;
  if (vnet_.gso_type == 0) {
    const bool open = (vnet_.flags & kVnetNeedsChecksum) != 0;
    active_ = !open || complete_checksum(frame, vnet_.checksum_start, vnet_.checksum_offset);
    return active_;
  }
  if (!parse_frame(frame, layout_) || layout_.transport_offset == 0 || vnet_.gso_bytes == 0) return false;
  header_bytes_ = layout_.transport_offset + kUdpHeaderBytes;
  if (layout_.protocol == kIpProtocolTcp) {
    if (bytes_ < layout_.transport_offset + kTcpHeaderBytesMin) return false;
    const auto words = static_cast<uint32_t>(frame[layout_.transport_offset + 12]) >> 4;
    header_bytes_ = layout_.transport_offset + words * 4;
    if (words * 4 < kTcpHeaderBytesMin) return false;
  }
  active_ = header_bytes_ <= bytes_ && (bytes_ - header_bytes_) / vnet_.gso_bytes < kGsoPiecesMax;
  return active_;
}

uint32_t Segmenter::next_bytes() const noexcept {
  if (!active_) return 0;
  if (vnet_.gso_type == 0) return kVnetBytes + bytes_;
  return kVnetBytes + header_bytes_ + std::min<uint32_t>(vnet_.gso_bytes, bytes_ - header_bytes_ - offset_);
}

uint32_t Segmenter::next(std::span<std::byte> out) noexcept {
  const uint32_t total = next_bytes();
  if (total == 0 || out.size() < total) return 0;
  std::memset(out.data(), 0, kVnetBytes);
  std::byte* frame = out.data() + kVnetBytes;
  if (vnet_.gso_type == 0) {
    std::memcpy(frame, frame_.data(), bytes_);
    active_ = false;
    return total;
  }
  const uint32_t payload = total - kVnetBytes - header_bytes_;
  const bool last = offset_ + payload == bytes_ - header_bytes_;
  std::memcpy(frame, frame_.data(), header_bytes_);
  std::memcpy(frame + header_bytes_, frame_.data() + header_bytes_ + offset_, payload);
  write_headers(frame, payload);
  write_transport(frame, payload, last);
  offset_ += payload;
  ++index_;
  active_ = !last;
  return total;
}

void Segmenter::write_headers(std::byte* frame, uint32_t payload_bytes) const noexcept {
  std::byte* ip = frame + layout_.network_offset;
  const uint32_t ip_bytes = header_bytes_ - layout_.network_offset + payload_bytes;
  if (layout_.ip_version == 4) {
    store_be(ip + 2, static_cast<uint16_t>(ip_bytes));
    store_be(ip + 4, static_cast<uint16_t>(load_be<uint16_t>(ip + 4) + index_));
    set_ipv4_checksum(ip, layout_.transport_offset - layout_.network_offset);
  } else {
    store_be(ip + 4, static_cast<uint16_t>(ip_bytes - kIpv6HeaderBytes));
  }
}

void Segmenter::write_transport(std::byte* frame, uint32_t payload_bytes, bool last) const noexcept {
  const std::byte* ip = frame + layout_.network_offset;
  std::byte* transport = frame + layout_.transport_offset;
  const uint32_t bytes = header_bytes_ - layout_.transport_offset + payload_bytes;
  if (layout_.protocol == kIpProtocolTcp) {
    store_be(transport + 4, load_be<uint32_t>(transport + 4) + offset_);
    auto flags = static_cast<uint8_t>(transport[13]);
    if (!last) flags = static_cast<uint8_t>(flags & ~(kTcpFin | kTcpPush));
    if (index_ != 0) flags = static_cast<uint8_t>(flags & ~kTcpCwr);
    transport[13] = std::byte{flags};
    set_transport_checksum(ip, layout_.ip_version, layout_.protocol, std::span(transport, bytes), 16);
  } else {
    store_be(transport + 4, static_cast<uint16_t>(bytes));
    set_transport_checksum(ip, layout_.ip_version, layout_.protocol, std::span(transport, bytes), 6);
  }
}

}  // namespace weft
