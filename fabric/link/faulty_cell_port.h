// fabric/link/faulty_cell_port.h -- faults above the link engine: a cell port that loses, doubles, swaps and
// delays the cells that another port delivers. Only end-to-end acknowledgement can repair them.
#pragma once

#include <array>
#include <vector>

#include "base/rng.h"
#include "fabric/link/cell_port.h"
#include "fabric/link/fault_config.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Owner: the adapter's thread.
class FaultyCellPort final : public CellPort {
 public:
  /// `inner` and `random` must outlive the port.
  FaultyCellPort(CellPort& inner, RandomSource& random, const CellFaults& faults = {});

  void set_faults(const CellFaults& faults) noexcept { faults_ = faults; }
  [[nodiscard]] const FaultCounts& counts() const noexcept { return counts_; }

  [[nodiscard]] bool up() const noexcept override { return inner_.up(); }
  [[nodiscard]] const CellPortInfo& info() const noexcept override { return inner_.info(); }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return inner_.incarnation(); }
  int poll(Instant now) noexcept override;
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override {
    return inner_.claim(vl, cell_bytes);
  }
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override {
    inner_.commit(vl, cell_bytes, cell_crc);
  }
  [[nodiscard]] LaneTotals lane_totals(VirtualLane vl) noexcept override { return inner_.lane_totals(vl); }
  [[nodiscard]] std::span<const RxCell> receive() noexcept override;
  void release() noexcept override;
  void flush(Instant now) noexcept override { inner_.flush(now); }
  void wait_fds(std::vector<pollfd>& out) const override { inner_.wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override { inner_.finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  static constexpr uint32_t kHeldMax = 64;
  enum class HeldState : uint8_t { kFree, kWaiting, kAfterNext, kDelivered };
  struct Held {
    HeldState state = HeldState::kFree;
    VirtualLane vl;
    std::vector<std::byte> bytes;  // grows to the largest cell seen, then stays
    Instant due{};
  };

  Held* hold(const RxCell& cell, HeldState state);
  void deliver_held(HeldState state) noexcept;
  void pass(const RxCell& cell) noexcept;
  void push(const RxCell& cell) noexcept;

  CellPort& inner_;
  RandomSource& random_;
  CellFaults faults_;
  FaultCounts counts_;
  Instant now_{};
  uint64_t incarnation_ = 0;
  std::array<Held, kHeldMax> held_;
  uint32_t held_count_ = 0;  // entries that are not free
  std::array<RxCell, 3 * kFlitsPerReceiveMax> rx_{};
  uint32_t rx_count_ = 0;
};

}  // namespace weft::fabric
