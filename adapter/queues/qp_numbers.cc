// How it works: a place uses all its numbers in one round. When the last number of a round is returned, the
// place rests, and so does every number of the round. Then the next round begins.
#include "adapter/queues/qp_numbers.h"

#include <algorithm>

#include "adapter/limits.h"
#include "messages/multicast.h"

namespace weft::adapter {

QpNumbers::QpNumbers(uint32_t queue_pairs, uint32_t places, RandomSource& random)
    : random_(random),
      mask_(places - 1),
      fresh_(kQpnGsi.value() + 1),
      usable_(std::min(queue_pairs + kQpnGsi.value() + 1, places)),
      places_(places) {
  free_.reset(places);
}

/// A place never used before; else the one that is free for longest and does not rest. 0 when there is none.
uint32_t QpNumbers::next_place(Instant now) noexcept {
  if (fresh_ < usable_) {
    Place& place = places_[fresh_];
    place.high = place.first_high = static_cast<uint32_t>(random_.below((kQpnMask + 1) / (mask_ + 1)));
    return fresh_++;
  }
  for (size_t tries = free_.size(); tries > 0; --tries) {
    const uint32_t index = free_.front();
    free_.pop();
    if (now >= places_[index].rests_until) return index;
    free_.push(index);
  }
  return 0;
}

Qpn QpNumbers::take(Instant now) noexcept {
  const uint32_t index = next_place(now);
  if (index == 0) return kQpnAny;
  Place& place = places_[index];
  if (place.high * (mask_ + 1) + index == kQpnMulticast.value()) place.high = 0;  // reserved for multicast
  const uint32_t number = place.high * (mask_ + 1) + index;
  place.high = (place.high + 1) % ((kQpnMask + 1) / (mask_ + 1));
  return Qpn(number);
}

void QpNumbers::give_back(Qpn qpn, Instant now) noexcept {
  if (qpn.value() <= kQpnGsi.value()) return;
  const uint32_t index = qpn.value() & mask_;
  Place& place = places_[index];
  if (place.high == place.first_high) place.rests_until = now + kQpnRest;
  free_.push(index);
}

}  // namespace weft::adapter
