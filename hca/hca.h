// hca/hca.h -- the host channel adapter of the split driver: an adapter with the limits of a host, in the
// loop of its process. Programs that use the verbs have hca/device.h.
#pragma once

#include "adapter/running_adapter.h"
#include "hca/hca_limits.h"

namespace weft::hca {

/// Owner: one thread.
class Hca final : public adapter::RunningAdapter {
 public:
  /// `nics`: the numbers of its NICs if it has several; see adapter::AdapterConfig.
  Hca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits = hca_limits(),
      std::vector<uint8_t> nics = {});
};

}  // namespace weft::hca
