#include "hca/hca.h"

#include <utility>

namespace weft::hca {

Hca::Hca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits, std::vector<uint8_t> nics)
    : RunningAdapter("hca", {.guid = guid, .nics = std::move(nics), .limits = limits}, random) {}

}  // namespace weft::hca
