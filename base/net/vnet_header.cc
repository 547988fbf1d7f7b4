#include "base/net/vnet_header.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/net/ethernet.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(VnetError::kCount)> kErrorNames{
    "none", "flags", "checksum", "gso-size", "protocol"};

uint16_t load_le16(const std::byte* from) noexcept {
  return static_cast<uint16_t>(static_cast<unsigned>(from[0]) | static_cast<unsigned>(from[1]) << 8);
}

void store_le16(std::byte* to, uint16_t value) noexcept {
  to[0] = static_cast<std::byte>(value & 0xFF);
  to[1] = static_cast<std::byte>(value >> 8);
}

bool gso_fits(VnetGso gso, const FrameLayout& layout) noexcept {
  switch (gso) {
    case VnetGso::kNone:
      return true;
    case VnetGso::kUdpFragment:
      return false;  // obsolete, and fragments would need a fragment id of their own
    case VnetGso::kTcp4:
      return layout.ip_version == 4 && layout.protocol == kIpProtocolTcp;
    case VnetGso::kTcp6:
      return layout.ip_version == 6 && layout.protocol == kIpProtocolTcp;
    case VnetGso::kUdp:
      return layout.ip_version != 0 && layout.protocol == kIpProtocolUdp;
  }
  return false;
}

}  // namespace

std::string_view to_string(VnetError error) noexcept {
  const auto index = static_cast<size_t>(error);
  return index < kErrorNames.size() ? kErrorNames[index] : "unknown";
}

VnetHeader load_vnet(const std::byte* from) noexcept {
  return {.flags = static_cast<uint8_t>(from[0]),
          .gso_type = static_cast<uint8_t>(from[1]),
          .header_bytes = load_le16(from + 2),
          .gso_bytes = load_le16(from + 4),
          .checksum_start = load_le16(from + 6),
          .checksum_offset = load_le16(from + 8)};
}

void store_vnet(std::byte* to, const VnetHeader& header) noexcept {
  to[0] = static_cast<std::byte>(header.flags);
  to[1] = static_cast<std::byte>(header.gso_type);
  store_le16(to + 2, header.header_bytes);
  store_le16(to + 4, header.gso_bytes);
  store_le16(to + 6, header.checksum_start);
  store_le16(to + 8, header.checksum_offset);
  store_le16(to + 10, 0);
}

VnetError check_vnet(const VnetHeader& header, std::span<const std::byte> frame_head,
                     uint32_t frame_bytes) noexcept {
  if ((header.flags & ~(kVnetNeedsChecksum | kVnetDataValid)) != 0) return VnetError::kFlags;
  const bool open = (header.flags & kVnetNeedsChecksum) != 0;
  if (open) {
    const uint32_t field = uint32_t{header.checksum_start} + header.checksum_offset;
    if (header.checksum_start < kEthernetHeaderBytes || field + 2 > frame_bytes) return VnetError::kChecksum;
  }
  if (header.gso_type == 0) return VnetError::kNone;
  const auto gso = static_cast<VnetGso>(header.gso_type & ~kVnetGsoEcn);
  if (gso != VnetGso::kTcp4 && gso != VnetGso::kTcp6 && gso != VnetGso::kUdp) return VnetError::kFlags;
  if (!open) return VnetError::kChecksum;
  if (header.gso_bytes == 0) return VnetError::kGsoSize;
  FrameLayout layout;
  if (!parse_frame(frame_head, layout) || layout.transport_offset == 0) return VnetError::kProtocol;
  if (!gso_fits(gso, layout) || header.checksum_start < layout.network_offset) return VnetError::kProtocol;
  return VnetError::kNone;
}

GsoCut cut_of(const VnetHeader& header, std::span<const std::byte> frame_head,
              uint32_t frame_bytes) noexcept {
  FrameLayout layout;
  if (header.gso_type == 0 || header.gso_bytes == 0 || !parse_frame(frame_head, layout))
    return {.frame_bytes = frame_bytes};
  uint32_t headers = layout.transport_offset + kUdpHeaderBytes;
  if (layout.protocol == kIpProtocolTcp) {
    const uint32_t at = layout.transport_offset + 12;
    const uint32_t words = at < frame_head.size() ? static_cast<uint32_t>(frame_head[at]) >> 4 : 0;
    headers = layout.transport_offset + std::max(words * 4, kTcpHeaderBytesMin);
  }
  if (headers >= frame_bytes) return {.frame_bytes = frame_bytes};
  const uint32_t payload = frame_bytes - headers;
  return {.frame_bytes = headers + std::min<uint32_t>(header.gso_bytes, payload),
          .pieces = (payload + header.gso_bytes - 1) / header.gso_bytes};
}

Offload offloads_needed(const VnetHeader& header, uint8_t ip_version) noexcept {
  Offload needed = Offload::kNone;
  if ((header.flags & kVnetNeedsChecksum) != 0) needed = needed | Offload::kChecksum;
  if ((header.gso_type & kVnetGsoEcn) != 0) needed = needed | Offload::kTsoEcn;
  switch (static_cast<VnetGso>(header.gso_type & ~kVnetGsoEcn)) {
    case VnetGso::kNone:
    case VnetGso::kUdpFragment:
      break;
    case VnetGso::kTcp4:
      needed = needed | Offload::kTso4;
      break;
    case VnetGso::kTcp6:
      needed = needed | Offload::kTso6;
      break;
    case VnetGso::kUdp:
      needed = needed | (ip_version == 6 ? Offload::kUso6 : Offload::kUso4);
      break;
  }
  return needed;
}

}  // namespace weft
