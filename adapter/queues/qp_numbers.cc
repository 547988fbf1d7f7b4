// How it works: a place goes through all its numbers in a round. When the last one of a round is given back,
// the place rests, and with it every number of the round, before the next round begins.
#include "adapter/queues/qp_numbers.h"

#include <algorithm>

#include "adapter/limits.h"

namespace weft::adapter {

QpNumbers::QpNumbers(uint32_t queue_pairs, uint32_t places, RandomSource& random)
    : mask_(places - 1), places_(places) {
  free_.reset(places);
  const uint32_t usable = std::min(queue_pairs + kQpnGsi.value() + 1, places);
  for (uint32_t index = kQpnGsi.value() + 1; index < usable; ++index) {
    Place& place = places_[index];
    place.high = place.first_high = static_cast<uint32_t>(random.below((kQpnMask + 1) / places));
    free_.push(index);
  }
}

Qpn QpNumbers::take(Instant now) noexcept {
  for (size_t tries = free_.size(); tries > 0; --tries) {
    const uint32_t index = free_.front();
    free_.pop();
    Place& place = places_[index];
    if (now < place.rests_until) {
      free_.push(index);
      continue;
    }
    const uint32_t number = place.high * (mask_ + 1) + index;
    place.high = (place.high + 1) % ((kQpnMask + 1) / (mask_ + 1));
    return Qpn(number);
  }
  return Qpn(0);
}

void QpNumbers::give_back(Qpn qpn, Instant now) noexcept {
  if (qpn.value() <= kQpnGsi.value()) return;
  const uint32_t index = qpn.value() & mask_;
  Place& place = places_[index];
  if (place.high == place.first_high) place.rests_until = now + kQpnRest;
  free_.push(index);
}

}  // namespace weft::adapter
