// hca/reserves.h -- what calls take under the device's lock and the device therefore fetches in advance,
// without it: memory for the adapter's tables, and random numbers. Internal to hca/. docs/consumer.md.
#pragma once

#include <cstdint>
#include <optional>

#include "adapter/adapter.h"
#include "adapter/supplies.h"
#include "hca/device_lock.h"
#include "hca/random_reserve.h"

namespace weft::hca {

class Reserves {
 public:
  Reserves(adapter::ChannelAdapter& adapter, RandomReserve& random) : adapter_(adapter), random_(random) {}

  struct Fetched {
    adapter::Supplies supplies;
    std::optional<RandomReserve::Draw> drawn;
  };
  // ---- under the lock --------------------
  /// Bits of the kinds that run short (adapter::SupplyKind, and one for random numbers); 0: a call may make
  /// an object.
  [[nodiscard]] uint32_t lacks() const noexcept;
  /// Leaves in `fetched` what is not needed.
  void take(Fetched& fetched) noexcept;

  // ---- without the lock --------------------
  /// Fetches at least as much of each kind as one call takes.
  [[nodiscard]] Fetched fetch(uint32_t kinds);
  /// Refills the tables before a turn finds them empty. A turn that found too little has deferred its work
  /// until then. Takes `lock` meanwhile.
  void refill(DeviceLock& lock) noexcept;

 private:
  adapter::ChannelAdapter& adapter_;
  RandomReserve& random_;
};

}  // namespace weft::hca
