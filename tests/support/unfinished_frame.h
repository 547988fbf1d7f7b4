// tests/support/unfinished_frame.h -- frames that their sender left to be finished: without a checksum, or to
// be cut.
#pragma once

#include <algorithm>
#include <vector>

#include "base/net/vnet_header.h"
#include "tests/support/driver_world.h"

namespace weft::test {

/// A TCP segment without checksum, or a frame of several; vnet header in front.
inline std::vector<std::byte> unfinished(const MacAddress& to, const MacAddress& from, bool gso,
                                         uint16_t segment = 400, uint32_t frame_bytes = 1400) {
  std::vector<std::byte> bytes(kVnetBytes);
  std::vector<std::byte> frame = make_ethernet(to, from, 1, frame_bytes, kEtherTypeIpv4);
  std::fill_n(frame.begin() + 14, 40, std::byte{0});
  frame[14] = std::byte{0x45};
  store_be(frame.data() + 16, static_cast<uint16_t>(frame.size() - 14));
  frame[23] = std::byte{kIpProtocolTcp};
  frame[46] = std::byte{0x50};
  VnetHeader vnet{.flags = kVnetNeedsChecksum, .checksum_start = 34, .checksum_offset = 16};
  if (gso) {
    vnet.gso_type = static_cast<uint8_t>(VnetGso::kTcp4);
    vnet.header_bytes = 54;
    vnet.gso_bytes = segment;
  }
  store_vnet(bytes.data(), vnet);
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

}  // namespace weft::test
