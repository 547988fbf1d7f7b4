// base/net/vnet_header.h -- the 12 bytes in front of each frame on a FramePort: virtio_net_hdr_mrg_rxbuf,
// little-endian. It names the work that the frame's sender left to the receiver: transport checksum,
// segmentation, or both.
//
//   0 flags   1 GSO type   2 header bytes 16   4 payload bytes per segment 16   6 checksum from 16
//   8 checksum at, counted from there 16   10 number of buffers 16 (zero)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/net/frame_port.h"

namespace weft {

enum VnetFlag : uint8_t { kVnetNeedsChecksum = 1, kVnetDataValid = 2 };
enum class VnetGso : uint8_t { kNone = 0, kTcp4 = 1, kUdpFragment = 3, kTcp6 = 4, kUdp = 5 };
inline constexpr uint8_t kVnetGsoEcn = 0x80;

struct VnetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;       // VnetGso, perhaps with kVnetGsoEcn
  uint16_t header_bytes = 0;  // Ethernet, network and transport headers; a hint
  uint16_t gso_bytes = 0;     // transport payload of each segment
  uint16_t checksum_start = 0;
  uint16_t checksum_offset = 0;
};

[[nodiscard]] VnetHeader load_vnet(const std::byte* from) noexcept;
void store_vnet(std::byte* to, const VnetHeader& header) noexcept;

/// Why a vnet header was refused.
enum class VnetError : uint8_t {
  kNone,
  kFlags,     // unknown flag or GSO type
  kChecksum,  // the field lies outside the frame, or GSO without an open checksum
  kGsoSize,   // no segment size
  kProtocol,  // the GSO type does not fit the frame's headers
  kCount,
};
[[nodiscard]] std::string_view to_string(VnetError error) noexcept;

/// Checks a vnet header against its frame. `frame_head` holds the first bytes of the frame -- all headers
/// must lie in it -- and `frame_bytes` is the whole length.
[[nodiscard]] VnetError check_vnet(const VnetHeader& header, std::span<const std::byte> frame_head,
                                   uint32_t frame_bytes) noexcept;
/// Most pieces that a GSO frame may stand for. Linux's smallest MSS, 48 bytes, less 12 of time stamps, cuts a
/// full element into 1820 pieces. Without the limit, pieces of one byte would make 65,000, each of which
/// costs a system call or an element.
inline constexpr uint32_t kGsoPiecesMax = 2048;

/// The pieces of a frame that is cut as its header says.
struct GsoCut {
  uint32_t frame_bytes = 0;  // of the longest piece, Ethernet header included
  uint32_t pieces = 1;
};
/// The cut of a frame that passed check_vnet(), with the same `frame_head`. A frame without GSO is one piece.
[[nodiscard]] GsoCut cut_of(const VnetHeader& header, std::span<const std::byte> frame_head,
                            uint32_t frame_bytes) noexcept;
/// The offloads that the receiver of a frame with this header needs; `ip_version` distinguishes USO4 and
/// USO6.
[[nodiscard]] Offload offloads_needed(const VnetHeader& header, uint8_t ip_version) noexcept;

}  // namespace weft
