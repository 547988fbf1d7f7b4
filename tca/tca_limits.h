// tca/tca_limits.h -- limits of a target channel adapter: enough for its unit's sessions, inbound RDMA on
// (SAN-QP-06, C-16).
#pragma once

#include "adapter/config.h"

namespace weft::tca {

/// A session takes two QPs and two CQs, a domain and a few regions. Twice that, because an ending session may
/// coexist with its replacement. The management QP and its CQs come on top.
[[nodiscard]] constexpr adapter::AdapterLimits tca_limits(uint32_t sessions = 16) noexcept {
  adapter::AdapterLimits limits;
  limits.queue_pairs = limits.completion_queues = 4 * sessions + 4;
  limits.protection_domains = 2 * sessions + 2;
  limits.keys = 4096;
  limits.rd_contexts = 16;
  limits.inbound_rdma = true;
  return limits;
}

}  // namespace weft::tca
