// hca/hca_limits.h -- limits of a host channel adapter: thousands of QPs (SAN-QP-06).
#pragma once

#include "adapter/config.h"

namespace weft::hca {

[[nodiscard]] constexpr adapter::AdapterLimits hca_limits() noexcept {
  adapter::AdapterLimits limits;
  limits.queue_pairs = 16382;
  limits.completion_queues = 1024;
  limits.cqes_per_queue = 1U << 20;  // libfabric's rxm asks for 256 peers x 1024 requests
  limits.protection_domains = 1024;
  limits.keys = 65536;
  limits.rd_contexts = 64;
  return limits;
}

}  // namespace weft::hca
