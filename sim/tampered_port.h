// sim/tampered_port.h -- a cell port that lets a saboteur change or drop cells before the node gets them.
#pragma once

#include <array>
#include <vector>

#include "fabric/link/cell_port.h"
#include "fabric/link/limits.h"
#include "sim/saboteur.h"

namespace weft::sim {

/// Owner: its endnode. Exists only in worlds with a saboteur.
class TamperedPort final : public fabric::CellPort {
 public:
  /// `inner` and `saboteur` must outlive the port.
  TamperedPort(fabric::CellPort& inner, Saboteur& saboteur, uint32_t node) noexcept
      : inner_(inner), saboteur_(saboteur), node_(node) {}

  [[nodiscard]] bool up() const noexcept override { return inner_.up(); }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return inner_.info(); }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return inner_.incarnation(); }
  int poll(Instant now) noexcept override {
    now_ = now;
    return inner_.poll(now);
  }
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override {
    return inner_.claim(vl, cell_bytes);
  }
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override {
    inner_.commit(vl, cell_bytes, cell_crc);
  }
  [[nodiscard]] fabric::LaneTotals lane_totals(VirtualLane vl) noexcept override {
    return inner_.lane_totals(vl);
  }
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override;
  void release() noexcept override {
    inner_.release();
    count_ = 0;
  }
  void flush(Instant now) noexcept override { inner_.flush(now); }
  void wait_fds(std::vector<pollfd>& out) const override { inner_.wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override { return inner_.prepare_sleep(); }
  void finish_sleep() noexcept override { inner_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override { return inner_.deadline(); }

 private:
  static constexpr uint32_t kCellsMax = 3 * fabric::kFlitsPerReceiveMax;

  fabric::CellPort& inner_;
  Saboteur& saboteur_;
  uint32_t node_;
  Instant now_{};
  std::array<std::vector<std::byte>, kCellsMax> copies_;
  std::array<fabric::RxCell, kCellsMax> cells_{};
  uint32_t count_ = 0;  // cells since the last release()
};

}  // namespace weft::sim
