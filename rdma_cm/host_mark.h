// rdma_cm/host_mark.h -- a number that only endnodes of one host can compute, by which they know one another.
#pragma once

#include <array>
#include <cstdint>

#include "base/sip_hash.h"
#include "messages/ids.h"

namespace weft::rdma_cm {

/// @param host    NodeAddresses::host_number(), which never leaves the process; 0: unknown, the mark is 0
/// @param kind    of the message: a mark given in one kind is none in another
/// @param owner   the endnode for which the mark is valid; the switch guarantees its LID
/// @param number  so that each process or message has a mark of its own
[[nodiscard]] constexpr uint64_t host_mark(uint64_t host, uint16_t kind, Lid owner,
                                           uint64_t number) noexcept {
  if (host == 0) return 0;
  return sip_hash({host, ~host}, std::array{uint64_t{kind}, uint64_t{owner.value()}, number});
}

}  // namespace weft::rdma_cm
