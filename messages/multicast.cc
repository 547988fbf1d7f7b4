#include "messages/multicast.h"

#include "base/crc32c.h"

namespace weft {

Lid multicast_lid(const Gid& gid) noexcept {
  constexpr uint32_t kLids = kLidMax - kLidMulticastFirst.value() + 1U;
  const Lid lid(static_cast<uint16_t>(kLidMulticastFirst.value() + crc32c(gid) % kLids));
  const bool foreign = lid == kLidEverybody && gid != kGidEverybody;
  return foreign ? kLidMulticastFirst : lid;
}

}  // namespace weft
