// fabric/link/link_cell_port.h -- CellPort over a link. Whole-cell links: the adapter writes into the
// carrier's slots and reads from them, so nothing is copied. Links with smaller flits: cells are segmented
// and reassembled here.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/stats_page.h"
#include "fabric/link/cell_port.h"
#include "fabric/link/link_engine.h"

namespace weft::fabric {

enum class CellPortCounter : uint8_t {
  kCellsSent,
  kCellsReceived,
  kPoisoned,  // the rest of the cell was lost on the way (decisions 2.7)
  kTooShort,
  kTooLong,
  kBadCrc,  // reassembled from good flits, and the cell's CRC is wrong
  kUnfinishedAtReset,
  kCount,
};
[[nodiscard]] constexpr CounterNames<CellPortCounter> counter_labels(CellPortCounter /*of*/) noexcept {
  return {"cells_sent",     "cells_received", "cells_poisoned",           "cells_too_short",
          "cells_too_long", "cells_bad_crc",  "cells_unfinished_at_reset"};
}

/// Owner: the adapter's thread.
class LinkCellPort final : public CellPort {
 public:
  /// `link` must outlive the port; only the port calls it.
  explicit LinkCellPort(LinkEngine& link);
  /// Reserves memory for cells of any size that a link may agree on, so that a link that comes up allocates
  /// none. The memory is touched only if cells are reassembled from flits.
  void expect_any_size();

  [[nodiscard]] bool up() const noexcept override { return up_; }
  [[nodiscard]] const CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return incarnation_; }
  int poll(Instant now) noexcept override;
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override;
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override;
  [[nodiscard]] LaneTotals lane_totals(VirtualLane vl) noexcept override {
    const LaneCredit& lane = link_.lane(vl);
    if (lane.returned() != lane.sent()) link_.ask();
    return {lane.sent(), lane.returned()};
  }
  [[nodiscard]] std::span<const RxCell> receive() noexcept override;
  void release() noexcept override;
  void flush(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override { link_.wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return link_.prepare_sleep(); }
  void finish_sleep() noexcept override { link_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override { return link_.deadline(); }

  [[nodiscard]] const CounterSet<CellPortCounter>& counters() const noexcept { return counters_; }
  /// The port's own counters and the link's, as `prefix.NAME`.
  void publish(StatsPage& page, std::string_view prefix);

 private:
  /// A cell of one lane that is being sent or received in flits.
  struct Partial {
    uint32_t buffer = 0;  // index into buffers
    uint32_t bytes = 0;   // length of the cell being sent, or bytes received so far
    uint32_t done = 0;    // sending: bytes already in flits
    bool broken = false;  // receiving: too long, the rest is skipped up to the tail
  };

  void start_incarnation() noexcept;
  void pump(VirtualLane vl) noexcept;
  void pump_all() noexcept;
  void take_flit(const RxFlit& flit) noexcept;
  void finish_cell(Partial& partial, VirtualLane vl) noexcept;
  [[nodiscard]] std::byte* buffer(uint32_t index) noexcept {
    return storage_.data() + size_t{index} * cell_bytes_max_;
  }

  LinkEngine& link_;
  CellPortInfo info_;
  bool up_ = false;
  bool whole_ = true;
  uint64_t incarnation_ = 0;
  uint32_t cell_bytes_max_ = 0;
  uint32_t flit_bytes_ = 0;
  uint32_t sending_lanes_ = 0;  // bit per lane with a partly sent cell
  uint32_t rx_count_ = 0;
  std::array<RxCell, kFlitsPerReceiveMax> rx_{};
  uint32_t lanes_to_grant_ = 0;  // bit per lane whose entry in to_grant_ is not zero
  std::array<uint32_t, kVlCount> to_grant_{};
  std::array<Partial, kVlCount> sending_{};
  std::array<Partial, kVlCount> receiving_{};
  std::vector<std::byte> storage_;
  std::vector<uint32_t> free_buffers_;
  std::vector<uint32_t> lent_buffers_;  // of cells handed out since the last release()
  CounterSet<CellPortCounter> counters_;
};

}  // namespace weft::fabric
