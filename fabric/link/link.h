// fabric/link/link.h -- one end of a point-to-point link as switch ports and cell ports see it: flits per
// lane, credits, in order, without loss or corruption while the link is up (SAN-FLIT-01..06, SAN-VL-01..03).
// What carries the bytes -- shared memory, ZeroMQ, process memory -- is behind it (SAN-LAYER-01).
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "messages/flit.h"
#include "messages/ids.h"

namespace weft::fabric {

enum class LinkState : uint8_t {
  kDown,    // no peer; poll() keeps trying
  kUp,      // params() is valid
  kFaulty,  // the peer broke the protocol; poll() resets it
};

[[nodiscard]] std::string_view to_string(LinkState state) noexcept;

/// What both ends agreed on (decisions 2.8). Constant while the link is up.
struct LinkParams {
  Guid local_guid{};
  Guid peer_guid{};
  Lid lid{};  // of the endnode on this link; kLidNone between switches
  SubnetId subnet{};
  uint16_t switch_port = 0;
  uint32_t flit_payload_bytes = 0;
  uint32_t cell_payload_bytes = 0;
  uint32_t lanes = 0;  // data lanes
  uint32_t credits_per_lane = 0;
  bool whole_cell_flits = true;  // flit_payload_bytes holds the largest cell
};

/// A received flit. Checked: header, sequence, CRC -- in whole-cell mode the cell's CRC too.
struct RxFlit {
  VirtualLane vl{};
  bool head = false;
  bool tail = false;
  bool poison = false;
  uint32_t cell_crc = 0;                 // whole-cell links: the verified CRC of the cell
  std::span<const std::byte> payload{};  // in the carrier's memory; valid until release()
};

/// A flit to send, written to the memory claim() gave.
struct TxFlit {
  VirtualLane vl{};
  uint8_t flags = 0;  // FlitFlag
  uint32_t payload_bytes = 0;
  uint32_t cell_crc = 0;  // whole-cell flits: the cell's CRC, so that the payload is not hashed again (P1)
};

/// Owner: one thread. Everything but poll() on a link that is down is noexcept, bounded and free of system
/// calls; flush() makes at most one per burst, and only on carriers that need it.
class Link {
 public:
  virtual ~Link() = default;
  [[nodiscard]] virtual LinkState state() const noexcept = 0;
  [[nodiscard]] virtual const LinkParams& params() const noexcept = 0;
  /// Counts link resets: a changed value means that what was in flight is gone (decisions 2.11).
  [[nodiscard]] virtual uint64_t incarnation() const noexcept = 0;

  /// Handshake, timers, acknowledgements, credits, wake-ups. Returns work done.
  virtual int poll(Instant now) noexcept = 0;

  /// Memory for the next flit, params().flit_payload_bytes long; null without credit on `vl` or without a
  /// free slot. Repeating the call without commit() gives the same memory; nothing is reserved until
  /// commit().
  [[nodiscard]] virtual std::byte* claim(VirtualLane vl) noexcept = 0;
  /// Queues the claimed flit and spends one credit of its lane (none on lane 15).
  virtual void commit(const TxFlit& flit) noexcept = 0;
  /// Credits left on a lane.
  [[nodiscard]] virtual uint32_t credits(VirtualLane vl) const noexcept = 0;

  /// Next flits in order, at most kFlitsPerReceiveMax; empty when there are none. The views stay valid until
  /// release(). A second call before release() gives the flits after those.
  [[nodiscard]] virtual std::span<const RxFlit> receive() noexcept = 0;
  /// Gives back the carrier memory of all flits received so far. Does not grant credit.
  virtual void release() noexcept = 0;
  /// Grants the peer `flits` more flit buffers on `vl`: call when a received flit has left its lane buffer.
  virtual void grant(VirtualLane vl, uint32_t flits) noexcept = 0;

  /// Publishes what was committed, acknowledged and granted since the last flush.
  virtual void flush(Instant now) noexcept = 0;

  /// See Pollable.
  virtual void wait_fds(std::vector<pollfd>& out) const = 0;
  [[nodiscard]] virtual bool prepare_sleep() noexcept = 0;
  virtual void finish_sleep() noexcept = 0;
  [[nodiscard]] virtual Instant deadline() const noexcept = 0;
};

}  // namespace weft::fabric
