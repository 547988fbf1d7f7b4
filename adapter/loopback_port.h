// adapter/loopback_port.h -- carries cells between two QPs of one adapter without a link (SAN-QP-03). What is
// sent in one turn arrives in the next.
#pragma once

#include <memory>
#include <vector>

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
  [[nodiscard]] bool prepare_sleep() noexcept override { return tail_ == head_; }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override {
    return tail_ == head_ ? kNever : Instant::min();
  }

 private:
  static constexpr uint32_t kSlotBytes = cell_bytes_max(kCellPayloadBytesMax);

  fabric::CellPortInfo info_;
  uint32_t slots_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<uint32_t> bytes_;
  std::vector<VirtualLane> lanes_;
  std::vector<fabric::RxCell> view_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t received_ = 0;  // cells before it are in the view
};

}  // namespace weft::adapter
