// tests/support/netdev_random.h -- random but valid driver messages, the same for the same random source.
#pragma once

#include <vector>

#include "base/rng.h"
#include "messages/netdev_model.h"

namespace weft::test {

/// A message of the given alternative. Spans point into `store`, which must outlive it.
NetdevMessage random_netdev_message(RandomSource& random, NetdevFunction function,
                                    std::vector<std::byte>& store);

/// "0004 0001 ..." to bytes.
std::vector<std::byte> from_hex(std::string_view text);

}  // namespace weft::test
