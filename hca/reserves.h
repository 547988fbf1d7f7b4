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
  /// Makes sure that a call can make an object: fetches what runs short, at least as much of each kind as one
  /// call takes. Called and left with the lock held, which is released while it fetches. std::bad_alloc: the
  /// lock is not held. `left`: fetched and not needed, to be freed after the lock is released.
  void fill(DeviceLock& lock, std::optional<Fetched>& left);
  /// Refills the tables before a turn finds them empty. A turn that found too little has deferred its work
  /// until then. Called without the lock.
  void refill(DeviceLock& lock) noexcept;

 private:
  /// Bits of the kinds that run short (adapter::SupplyKind, and one for random numbers).
  [[nodiscard]] uint32_t lacks() const noexcept;
  [[nodiscard]] Fetched fetch(uint32_t kinds);
  /// Leaves in `fetched` what is not needed.
  void take(Fetched& fetched) noexcept;

  adapter::ChannelAdapter& adapter_;
  RandomReserve& random_;
};

}  // namespace weft::hca
