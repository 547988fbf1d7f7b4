// fabric/link/faulty_carrier.h -- faults below the link engine: a carrier that loses, damages, doubles, swaps
// and delays the slots that another carrier delivers. Only the receiver's view is affected; the slots
// themselves stay intact (decisions P3).
#pragma once

#include <memory>
#include <vector>

#include "base/rng.h"
#include "fabric/link/carrier.h"
#include "fabric/link/fault_config.h"

namespace weft::fabric {

/// Owner: the link's thread.
class FaultyCarrier final : public Carrier {
 public:
  /// `random`, `faults` and `counts` must outlive the carrier; `faults` may change at any time.
  FaultyCarrier(std::unique_ptr<Carrier> inner, uint32_t slot_bytes, RandomSource& random,
                const FlitFaults& faults, FaultCounts& counts);

  [[nodiscard]] TxRun claim(uint32_t reserve) noexcept override { return inner_->claim(reserve); }
  void commit(uint32_t slots, uint32_t last_bytes) noexcept override { inner_->commit(slots, last_bytes); }
  void publish(Instant now) noexcept override { inner_->publish(now); }
  [[nodiscard]] uint32_t publish_every() const noexcept override { return inner_->publish_every(); }
  void retire(uint64_t before) noexcept override { inner_->retire(before); }
  void resend(uint64_t from) noexcept override { inner_->resend(from); }
  [[nodiscard]] uint32_t receive(std::span<RxSlot> out) noexcept override;
  void release(uint64_t before) noexcept override;
  [[nodiscard]] bool reread(uint64_t from) noexcept override;
  [[nodiscard]] std::string_view kind() const noexcept override { return inner_->kind(); }
  [[nodiscard]] CarrierState poll(Instant now) noexcept override;
  void serve_apart(WakeList& wakes) noexcept override { inner_->serve_apart(wakes); }
  [[nodiscard]] CarrierState check_peer() noexcept override { return inner_->check_peer(); }
  void wait_fds(std::vector<pollfd>& out) const override { inner_->wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override { inner_->finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  static constexpr uint32_t kHeldMax = 64;
  enum class HeldState : uint8_t { kFree, kWaiting, kAfterNext, kDelivered };
  struct Held {
    HeldState state = HeldState::kFree;
    RxSlot slot;  // its bytes lie in storage_
    Instant due{};
  };

  [[nodiscard]] bool quiet() const noexcept;
  Held* hold(const RxSlot& slot, HeldState state) noexcept;
  uint32_t deliver_held(std::span<RxSlot> out, HeldState state) noexcept;
  uint32_t pass(const RxSlot& slot, std::span<RxSlot> out) noexcept;
  void lose(const RxSlot& slot) noexcept;

  std::unique_ptr<Carrier> inner_;
  uint32_t slot_bytes_;
  RandomSource& random_;
  const FlitFaults& faults_;
  FaultCounts& counts_;
  Instant now_{};
  std::vector<std::byte> storage_;
  std::vector<Held> held_;
  uint32_t held_count_ = 0;  // entries that are not free
  uint64_t released_ = 0;    // slots before this position have been given back
};

}  // namespace weft::fabric
