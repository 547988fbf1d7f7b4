// adapter/loopback_port.h -- carries cells between two QPs of one adapter without a link (SAN-QP-03). Cells
// sent in one turn arrive in the next.
#pragma once

#include <memory>
#include <vector>

#include "base/fixed_ring.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Owner: the adapter's thread.
class LoopbackPort final : public fabric::CellPort {
 public:
  explicit LoopbackPort(uint32_t cells);
  [[nodiscard]] bool up() const noexcept override { return true; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant) noexcept override { return 0; }
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override;
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override;
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override;
  void release() noexcept override;
  void flush(Instant) noexcept override {}
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return waiting_.empty(); }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override {
    return waiting_.empty() ? kNever : Instant::min();
  }

 private:
  static constexpr uint32_t kSlotBytes = cell_bytes_max(kCellPayloadBytesMax);

  fabric::CellPortInfo info_;
  uint32_t slots_;
  std::unique_ptr<std::byte[]> memory_;
  uint32_t next_slot_ = 0;
  FixedRing<fabric::RxCell> waiting_;  // cells in the slots before next_slot_
  std::vector<fabric::RxCell> view_;   // the cells of the current receive()
};

}  // namespace weft::adapter
