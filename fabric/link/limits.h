// fabric/link/limits.h -- tunables of links and switches, each with its reason (house style 23).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Cell payload when the topology names none. Against 1024, 64 KiB writes are 25 % faster over shared memory
/// and 40 % over ZeroMQ; small messages the same: a cell is as long as its data (docs/performance.md).
inline constexpr uint32_t kCellPayloadBytesDefault = 4096;
/// Bytes of the slots of one direction of a link at most, headers included: 256 slots of 4 KiB cells, as many
/// as a lane has credits. Fewer slots make the ends run in step, and each waits for the other's cache lines:
/// with 64 slots small messages and writes of 1 MiB are a quarter slower. Twice as many would gain 7 % of
/// large writes for twice the memory (decisions P7; docs/performance.md).
inline constexpr uint32_t kLinkRingBytes = 1280 * 1024;
inline constexpr uint32_t kLinkRingSlotsMin = 32;
inline constexpr uint32_t kLinkRingSlotsMax = 256;
/// Flit buffers per data lane unless the topology says otherwise (O-10). An endnode that shares its core with
/// another is away for tens of microseconds; 32 stall a lane meanwhile (256-byte cells: 2.5 M/s with 32, 4.0
/// with 128, 4.6 with 256). Over ZeroMQ they are four full bursts.
inline constexpr uint32_t kCreditsPerLaneDefault = 256;
inline constexpr uint32_t kCreditsPerLaneMax = 32767;
inline constexpr uint32_t kDataLanesDefault = 4;
inline constexpr uint32_t kDataLanesMax = 15;
/// Cells taken from one input per poll: bounds a turn (house style 17).
inline constexpr uint32_t kFlitsPerReceiveMax = 64;
/// Cells sent per lane before the arbiter looks again (decisions P9).
inline constexpr uint32_t kCellsPerArbitrationMax = 16;
/// An ack or credit travels alone after this many flits (O-11).
inline constexpr uint32_t kFlitsPerAck = 8;
/// Data flits a link may have unacknowledged, whatever its carrier; above the slots of any ring.
inline constexpr uint32_t kUnacknowledgedFlitsMax = 1024;
static_assert((kUnacknowledgedFlitsMax & (kUnacknowledgedFlitsMax - 1)) == 0, "places go by the low bits");
/// Slots only acks, credits and repeat requests may take, so that two full rings never wait for each other.
inline constexpr uint32_t kControlSlots = 8;
/// Repeats of one flit before the link is declared faulty. Damaged shared memory fails at once and for ever;
/// a carrier that loses every tenth flit fails 16 times in a row once in 10^16 flits, so that flit loss alone
/// never resets a link (decisions 2.25; three repeats, as P3 has it, would reset such a link every ten
/// thousand flits).
inline constexpr uint32_t kFlitRepeatsMax = 16;
/// Flits published at once on rings: the peer works while the burst goes on (decisions P9).
inline constexpr uint32_t kFlitsPerPublish = 8;
/// An output lane that moved nothing for this long drops its cells (head-of-queue lifetime, decisions section
/// 4), whether it had no credit or no slot: at default sizes a link has fewer slots than credits.
inline constexpr Duration kHeadOfQueueLifetime = 2s;
/// An output lane that could move nothing for this long stands still: its cells may not crowd those for other
/// outputs any more. Longer than an endnode that runs is kept from its core by a few others; with the tick
/// that notices it well below the 50 ms that a frozen host may cost its neighbours.
inline constexpr Duration kOutputStandstill = 25ms;
inline constexpr Duration kPeerStalledNotice = 1s;
/// A switch gives the LID of an endnode that named no port to another one only this long after the first has
/// gone: until then peers may hold state about it. Queue pairs live on for 10 s without their port
/// (decisions 2.12), cells lie at most 2 s in each switch, sessions end after 1.5 s of silence; what a peer
/// keeps for longer -- retries that the user set higher, address handles -- names queue pair numbers and PSNs
/// that were random, and no number comes again within the same 60 s (decisions section 4). Its own endnode
/// gets the LID back at any time.
inline constexpr Duration kSpareLidRest = 60s;
/// LIDs that a switch needs for its spare ports, unless it is told of more: more than ports, because they
/// rest while short-lived programs come and go.
[[nodiscard]] constexpr uint32_t spare_lids(uint32_t spare_ports) noexcept {
  return spare_ports == 0 ? 0 : std::max(64U, 16 * spare_ports);
}
/// Of a switch's `lids` for spare ports the first ones go to endnodes that bring no identity. The rest, a
/// quarter, is for those that bring one and wish for the LID they had: no other endnode gets it meanwhile.
[[nodiscard]] constexpr uint32_t anonymous_lids(uint32_t lids) noexcept {
  return lids / 4 * 3;
}
/// An endnode whose link is down tries this often.
inline constexpr Duration kLinkRetryInterval = 100ms;

}  // namespace weft::fabric
