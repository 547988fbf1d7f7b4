#include "tca/tca.h"

namespace weft::tca {

Tca::Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits)
    : RunningAdapter("tca", {.guid = guid, .limits = limits}, random) {}

}  // namespace weft::tca
