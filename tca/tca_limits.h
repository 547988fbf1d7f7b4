// tca/tca_limits.h -- what a target channel adapter holds: tens of QPs, inbound RDMA on (SAN-QP-06, C-16).
#pragma once

#include "adapter/config.h"

namespace weft::tca {

[[nodiscard]] constexpr adapter::AdapterLimits tca_limits() noexcept {
  adapter::AdapterLimits limits;
  limits.queue_pairs = 64;
  limits.completion_queues = 64;
  limits.protection_domains = 64;
  limits.keys = 4096;
  limits.rd_contexts = 16;
  limits.inbound_rdma = true;
  return limits;
}

}  // namespace weft::tca
