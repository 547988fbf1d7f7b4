#include "tca/tca.h"

#include <utility>

namespace weft::tca {

Tca::Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits, std::vector<uint8_t> nics)
    : RunningAdapter("tca", {.guid = guid, .nics = std::move(nics), .limits = limits}, random) {}

}  // namespace weft::tca
