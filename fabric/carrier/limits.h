// fabric/carrier/limits.h -- tunables of carriers, each with its reason (house style 23).
#pragma once

#include "base/clock.h"
#include "fabric/link/limits.h"

namespace weft::fabric {

/// Silence after which the peer of a ZeroMQ link counts as dead, unless the topology says otherwise. A local
/// socket loses nothing, so a killed peer is noticed within 2 s. TCP may stall for seconds under loss.
inline constexpr Duration kZmqSilenceIpc = 1500ms;
inline constexpr Duration kZmqSilenceTcp = 5s;
/// What a topology may set. Below a second, a busy machine looks like a dead one. Above a minute, a port of a
/// dead peer is lost for longer than a LID rests.
inline constexpr Duration kZmqSilenceMin = 1s;
inline constexpr Duration kZmqSilenceMax = 60s;
static_assert(kZmqSilenceMax <= kSpareLidRest);
/// Longest time for which an end of a ZeroMQ link sends nothing. A quarter of the shortest limit, so that
/// ends with different limits can be joined: each end applies its own.
inline constexpr Duration kZmqSignOfLife = kZmqSilenceMin / 4;

}  // namespace weft::fabric
