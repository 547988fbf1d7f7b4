// tca/tca.h -- the target channel adapter: an adapter with the limits of an I/O unit, in the loop of its
// process.
#pragma once

#include "adapter/running_adapter.h"
#include "tca/tca_limits.h"

namespace weft::tca {

/// Owner: one thread.
class Tca final : public adapter::RunningAdapter {
 public:
  /// `nics`: the numbers of its NICs if it has several; see adapter::AdapterConfig.
  Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits = tca_limits(),
      std::vector<uint8_t> nics = {});
};

}  // namespace weft::tca
