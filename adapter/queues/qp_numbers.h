// adapter/queues/qp_numbers.h -- assigns queue pair numbers. The low bits are a place in the adapter's QP
// table. The other bits step each time the place is used, from a random start. So a cell for a queue pair
// that has ended finds none, and numbers cannot be predicted (decisions, section 4).
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/config.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "base/rng.h"
#include "messages/ids.h"

namespace weft::adapter {

/// Owner: the adapter's thread. Places are reused first in, first out. All memory is allocated at
/// construction.
class QpNumbers {
 public:
  /// @param queue_pairs most numbers in use at once
  /// @param places      size of the QP table: a power of two, at most 2^24; places 0 and 1 belong to the
  ///                    management QPs
  QpNumbers(uint32_t queue_pairs, uint32_t places, RandomSource& random);

  /// A number that was not in use within the last kQpnRest; kQpnAny when all are in use or resting.
  [[nodiscard]] Qpn take(Instant now) noexcept;
  /// Ends the use of a number. Management numbers are never assigned and are ignored.
  void give_back(Qpn qpn, Instant now) noexcept;

 private:
  struct Place {
    uint32_t high = 0;        // upper bits of the next number
    uint32_t first_high = 0;  // upper bits at which each round of numbers begins
    Instant rests_until = Instant::min();
  };

  [[nodiscard]] uint32_t next_place(Instant now) noexcept;

  RandomSource& random_;
  uint32_t mask_;
  uint32_t fresh_;   // places from here on were never used
  uint32_t usable_;  // usable places are below this
  std::vector<Place> places_;
  FixedRing<uint32_t> free_;  // places, longest free first
};

}  // namespace weft::adapter
