// tools/capture/psn_map.h -- packet sequence numbers of RoCE for those of one direction of a connection.
// A packet of ours is up to 64 cells under one number; each frame of RoCE has a number of its own. The
// numbers begin as the connection's own do and step by one for each frame; a cell that is repeated gets
// the numbers it had before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "messages/ids.h"

namespace weft::tools {

/// What is known of one packet of ours.
struct MappedPacket {
  uint32_t first = 0;   // RoCE's number of its first frame
  uint32_t frames = 0;  // seen so far; of a read request those of its response
  uint32_t bytes = 0;   // seen so far
  bool ended = false;   // its last cell was seen: the numbers above are final
};

/// Keeps the newest kPacketsMax packets.
class PsnMap {
 public:
  /// Twice the packets that an adapter has in flight.
  static constexpr int32_t kPacketsMax = 1024;

  /// The packet of a cell that was seen, begun if it is new. A packet far from the others begins a new
  /// numbering: the queue pair was reset.
  MappedPacket& open(Psn psn);
  /// Null for one that is not known, or not any more.
  [[nodiscard]] const MappedPacket* find(Psn psn) const noexcept;
  /// RoCE's number of frame `frame` of a packet; of a packet that is not known an estimate by its neighbours.
  [[nodiscard]] uint32_t number(Psn psn, uint32_t frame) const noexcept;

 private:
  /// Behind the last frame of a packet. A packet whose last cell was not seen has one more frame at least.
  static uint32_t end_of(const MappedPacket& packet) noexcept {
    return packet.first + packet.frames + (packet.ended ? 0 : 1);
  }
  Psn oldest_{};
  std::deque<MappedPacket> packets_;
};

}  // namespace weft::tools
