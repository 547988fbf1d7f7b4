// tests/support/port_frames.h -- frames for tests of ports, whole as they stand on a port.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/endian.h"
#include "base/net/frame_port.h"

namespace weft::test {

inline constexpr MacAddress kPortMac{0x02, 0, 0, 0, 0, 0x2A};
inline constexpr MacAddress kPortPeer{0x02, 0, 0, 0, 0, 0x2B};

/// vnet header of zeros and an Ethernet frame.
inline std::vector<std::byte> port_frame(uint32_t frame_bytes, uint8_t fill, const MacAddress& to = kPortPeer,
                                         const MacAddress& from = kPortMac) {
  std::vector<std::byte> bytes(kVnetBytes + frame_bytes, std::byte{fill});
  std::fill_n(bytes.begin(), kVnetBytes, std::byte{0});
  std::memcpy(bytes.data() + kVnetBytes, to.data(), 6);
  std::memcpy(bytes.data() + kVnetBytes + 6, from.data(), 6);
  store_be(bytes.data() + kVnetBytes + 12, uint16_t{0x88B5});
  return bytes;
}

inline FrameIo write_whole(FramePort& port, std::span<const std::byte> frame) {
  const size_t head = std::min<size_t>(frame.size(), 128);
  return port.write_frame(frame.first(head), frame.subspan(head));
}

/// Polls until a frame comes; empty after two seconds.
inline std::vector<std::byte> wait_frame(FramePort& port, const Clock& clock) {
  std::vector<std::byte> into(70000);
  for (int i = 0; i < 2000; ++i) {
    port.poll(clock.now());
    const FrameReadResult got = port.read_frame(into);
    if (got.io == FrameIo::kOk) {
      into.resize(got.bytes);
      return into;
    }
    ::usleep(1000);
  }
  return {};
}

}  // namespace weft::test
