// adapter/transport/stash.h -- holds cells whose place in memory is not known yet, because the first cell of
// their RDMA write or an earlier Send is missing (decisions 2.1). The size is bounded per adapter and per QP.
// A cell that finds no room is dropped and not acknowledged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapter/queues/queue_pair.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Owner: the adapter's thread. Each QP has a list of its cells (ReceiveSide::stash_head); 0 ends a list.
class Stash {
 public:
  Stash(uint32_t cells, uint32_t cells_per_qp);

  struct Cell {
    Psn psn;
    uint16_t number = 0;
    uint16_t bytes = 0;
    uint32_t next = 0;
  };

  /// Copies the payload. Returns false, without a change, when there is no room.
  [[nodiscard]] bool keep(ReceiveSide& rx, const CellView& cell) noexcept;
  /// Takes one cell of packet `psn` out of the QP's list. Returns its index, 0 when there is none. The cell
  /// stays readable until the next keep().
  [[nodiscard]] uint32_t take(ReceiveSide& rx, Psn psn) noexcept;
  [[nodiscard]] const Cell& at(uint32_t index) const noexcept { return cells_[index]; }
  [[nodiscard]] std::span<const std::byte> payload(uint32_t index) const noexcept {
    return {&memory_[size_t{index} * kCellPayloadBytesMax], cells_[index].bytes};
  }
  void drop_all(ReceiveSide& rx) noexcept;
  [[nodiscard]] uint32_t used() const noexcept { return used_; }

 private:
  void release(uint32_t index) noexcept;

  std::vector<Cell> cells_;              // index 0 is not used
  std::unique_ptr<std::byte[]> memory_;  // pages are touched only when cells use them
  uint32_t free_ = 0;
  uint32_t used_ = 0;
  uint32_t per_qp_;
};

}  // namespace weft::adapter
