// tca/tca_limits.h -- what a target channel adapter holds: enough for the sessions its unit takes, inbound
// RDMA on (SAN-QP-06, C-16).
#pragma once

#include "adapter/config.h"

namespace weft::tca {

/// A session takes two QPs and two CQs, a domain and a few regions; twice that, since one that ends may stand
/// beside the one that replaces it. The management QP and its CQs come on top.
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
