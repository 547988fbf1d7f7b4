// tools/capture/psn_map.h -- RoCE packet sequence numbers for one direction of a connection. A packet of ours
// is up to 64 cells under one PSN, but each RoCE frame needs its own. The RoCE numbers start at the first PSN
// seen and step by one for each frame. A repeated cell gets the same numbers again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "messages/ids.h"

namespace weft::tools {

/// One of our packets, and the RoCE frames that were made from it.
struct MappedPacket {
  uint32_t first = 0;   // RoCE PSN of its first frame
  uint32_t frames = 0;  // seen so far; for a read request the frames of its response
  uint32_t bytes = 0;   // seen so far
  bool ended = false;   // its last cell was seen, so `frames` and `bytes` are final
};

/// Keeps the newest kPacketsMax packets.
class PsnMap {
 public:
  /// Twice the packets that an adapter has in flight.
  static constexpr int32_t kPacketsMax = 1024;

  /// The entry of the packet whose cell was seen; new packets get one. If the PSN is far from all others, the
  /// queue pair was reset: the map starts anew.
  MappedPacket& open(Psn psn);
  /// Null for a packet that is unknown or was dropped as too old.
  [[nodiscard]] const MappedPacket* find(Psn psn) const noexcept;
  /// RoCE PSN of frame `frame` of a packet. For an unknown packet it is estimated from the nearest known one.
  [[nodiscard]] uint32_t number(Psn psn, uint32_t frame) const noexcept;

 private:
  /// RoCE PSN after the last frame of a packet. A packet whose last cell was not seen counts as one frame
  /// longer.
  static uint32_t end_of(const MappedPacket& packet) noexcept {
    return packet.first + packet.frames + (packet.ended ? 0 : 1);
  }
  Psn oldest_{};
  std::deque<MappedPacket> packets_;
};

}  // namespace weft::tools
