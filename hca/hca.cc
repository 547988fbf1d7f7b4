#include "hca/hca.h"

namespace weft::hca {

Hca::Hca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits)
    : RunningAdapter("hca", {.guid = guid, .limits = limits}, random) {}

}  // namespace weft::hca
