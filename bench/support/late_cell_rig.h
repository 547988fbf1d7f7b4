// bench/support/late_cell_rig.h -- two adapters on a wire that can hold cells back, so that the cell of a
// write arrives after those of later writes. The first write of a round stays on the wire while the late cell
// arrives, so that the late cell is placed and nothing is executed.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "bench/support/verbs_rig.h"
#include "fabric/link/cell_port.h"

namespace weft::bench {

/// One end of the wire: cells without limit, in order but for those that are held back.
class WireEnd final : public fabric::CellPort {
 public:
  WireEnd(Lid lid, uint32_t cell_payload_bytes);
  void connect(WireEnd& far) noexcept { far_ = &far; }
  /// The next `cells` cells that are sent from here stay on the wire.
  void hold(uint32_t cells) noexcept { to_hold_ = cells; }
  /// Delivers the held cell that was sent last.
  void release_latest();

  [[nodiscard]] bool up() const noexcept override { return true; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant /*now*/) noexcept override { return 0; }
  [[nodiscard]] std::byte* claim(VirtualLane /*vl*/, uint32_t cell_bytes) noexcept override;
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override;
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override;
  void release() noexcept override { lent_.clear(); }
  void flush(Instant /*now*/) noexcept override {}
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return arrived_.empty(); }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }

 private:
  using Cell = std::vector<std::byte>;
  static constexpr size_t kCellsPerReceive = 64;

  fabric::CellPortInfo info_;
  WireEnd* far_ = nullptr;
  uint32_t to_hold_ = 0;
  Cell staging_;
  std::vector<Cell> held_;
  std::deque<Cell> arrived_;
  std::vector<Cell> lent_;
  std::vector<fabric::RxCell> views_;
};

/// Owner: the measuring thread. A round: send(), arrive() as the measured part, finish().
class LateCellRig {
 public:
  enum class Later : uint8_t {
    kSamePlace,  // each covers the late cell, as where one buffer or flag is written again and again
    kPieces,     // each covers one byte of it, at every second place
  };
  static constexpr uint32_t kWriteBytes = 256;  // one cell
  /// Writes behind the late one. With the first and the late write they fill the window of packets.
  static constexpr uint32_t kLaterMost = 510;

  /// @param later  writes of a round behind the late one, 0..kLaterMost
  LateCellRig(uint32_t later, Later where);
  /// All cells but the first two arrive.
  void send();
  /// The second cell arrives, behind those of `later` writes.
  void arrive() noexcept;
  /// The first cell arrives, and all writes complete.
  void finish();

 private:
  void run_unit() noexcept;

  uint32_t writes_;
  Later where_;
  Instant now_;
  WireEnd host_wire_;
  WireEnd unit_wire_;
  VerbsExchange exchange_{};
  VerbsEnd host_;
  VerbsEnd unit_;
};

}  // namespace weft::bench
