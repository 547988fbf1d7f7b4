// fabric/link/cell_port.h -- a link as a channel adapter sees it: whole cells in and out. With whole-cell
// flits nothing is copied. With smaller flits the port segments and reassembles, which is the link's part of
// SAN-FLIT-01 (PUSH-CELL-04 belongs to the adapter).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/pollable.h"
#include "messages/ids.h"
#include "messages/link_hello.h"

namespace weft::fabric {

struct CellPortInfo {
  Guid guid{};
  Lid lid{};
  SubnetId subnet{};
  uint32_t cell_payload_bytes = 0;
  uint32_t lanes = 0;
  std::array<uint16_t, kLinkPkeysMax> pkeys{};  // P_Key table; 0 behind the last one
};

/// A received cell whose CRC is already verified. It lies in the carrier's memory, and the peer may still
/// write to it: copy a header field once, then use the copy.
struct RxCell {
  std::span<const std::byte> bytes{};
  VirtualLane vl{};
};

/// Flits of one lane since the link came up.
struct LaneTotals {
  uint64_t sent = 0;
  uint64_t returned = 0;  // of these, flits for which the neighbour has given the credit back
};

/// Owner: one thread. No call blocks or allocates once the link is up.
class CellPort : public Sleeper {
 public:
  /// True while the link is up and info() is valid.
  [[nodiscard]] virtual bool up() const noexcept = 0;
  [[nodiscard]] virtual const CellPortInfo& info() const noexcept = 0;
  /// See LinkEngine::incarnation().
  [[nodiscard]] virtual uint64_t incarnation() const noexcept = 0;

  virtual int poll(Instant now) noexcept = 0;

  /// Memory for one cell of up to `cell_bytes`; null when the lane has no credit or no slot is free. Nothing
  /// is reserved until commit(): a second claim gives the same memory.
  [[nodiscard]] virtual std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept = 0;
  /// Sends the claimed cell. `cell_crc` is the CRC in its last four bytes.
  virtual void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept = 0;

  /// Tells which cells may still wait at the neighbour. If some may, the neighbour is asked for its totals
  /// anew, because a flit that told them may be lost; the next flush() sends the question. A port without
  /// credits has equal totals.
  [[nodiscard]] virtual LaneTotals lane_totals(VirtualLane /*vl*/) noexcept { return {}; }

  /// Cells that arrived; valid until release().
  [[nodiscard]] virtual std::span<const RxCell> receive() noexcept = 0;
  /// Gives back all cells of the last receive() and grants credit for them: an endnode always consumes
  /// (decisions P5).
  virtual void release() noexcept = 0;

  virtual void flush(Instant now) noexcept = 0;
};

}  // namespace weft::fabric
