// fabric/link/limits.h -- tunables of links and switches, each with its reason (house style 23).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Cell payload when the topology names none. Compared with 1024 bytes, 64 KiB writes are 25 % faster over
/// shared memory and 40 % over ZeroMQ. Small messages cost the same, because a cell is only as long as its
/// data (docs/performance.md).
inline constexpr uint32_t kCellPayloadBytesDefault = 4096;
/// Upper limit for the slots of one direction of a link, headers included: 256 slots of 4 KiB cells, as many
/// as a lane has credits. With fewer slots the ends run in step and wait for each other's cache lines: with
/// 64 slots small messages and writes of 1 MiB are a quarter slower. Twice as many slots would make large
/// writes 7 % faster for twice the memory (decisions P7; docs/performance.md).
inline constexpr uint32_t kLinkRingBytes = 1280 * 1024;
inline constexpr uint32_t kLinkRingSlotsMin = 32;
inline constexpr uint32_t kLinkRingSlotsMax = 256;
/// Flit buffers per data lane unless the topology says otherwise (O-10). An endnode that shares its core with
/// another process is off the core for tens of microseconds, and 32 buffers stall a lane meanwhile (256-byte
/// cells: 2.5 M/s with 32 buffers, 4.0 with 128, 4.6 with 256). Over ZeroMQ, 256 flits are four full bursts.
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
/// Data flits that a link may have unacknowledged, for every carrier. More than the slots of any ring.
inline constexpr uint32_t kUnacknowledgedFlitsMax = 1024;
static_assert((kUnacknowledgedFlitsMax & (kUnacknowledgedFlitsMax - 1)) == 0, "places go by the low bits");
/// Slots reserved for acks, credits and repeat requests, so that two full rings never wait for each other.
inline constexpr uint32_t kControlSlots = 8;
/// Repeats of one flit before the link is declared faulty. Damaged shared memory fails at once and stays
/// damaged. A carrier that loses every tenth flit fails 17 times in a row once in 10^17 flits, so flit loss
/// alone never resets a link (decisions 2.25). Three repeats (P3) would reset such a link every ten thousand
/// flits.
inline constexpr uint32_t kFlitRepeatsMax = 16;
/// Repeats that an end serves without an acknowledgement of something new between them. An honest peer asks
/// at most 16 times for a flit that is lost and 16 times for a damaged one.
/// A carrier may double its requests.
inline constexpr uint32_t kRepeatsServedMax = 4 * kFlitRepeatsMax;
/// Flits after which a ring publishes within a burst, so that the peer works while the burst goes on
/// (decisions P9).
inline constexpr uint32_t kFlitsPerPublish = 8;
/// An output lane that moved nothing for this long drops its cells (head-of-queue lifetime, decisions section
/// 4). It does not matter whether the lane lacked credits or slots: at default sizes a link has fewer slots
/// than credits.
inline constexpr Duration kHeadOfQueueLifetime = 2s;
/// An output lane that could move nothing for this long stands still: its cells may then take no room from
/// cells for other outputs. Other processes keep a running endnode off its core for less than this. Together
/// with the tick that notices the standstill it stays well below 50 ms, the time that a frozen host may cost
/// its neighbours.
inline constexpr Duration kOutputStandstill = 25ms;
inline constexpr Duration kPeerStalledNotice = 1s;
/// The time between the departure of an endnode that named no port and the reuse of its LID by another
/// endnode. Until then peers may hold state about the old endnode. Queue pairs live on for 10 s without their
/// port (decisions 2.12), cells wait at most 2 s in each switch, and sessions end after 1.5 s of silence.
/// Some peers keep state longer, for example address handles, or retries with longer timeouts set by the
/// user. That state names random queue pair numbers and PSNs, and no number is reused within the same 60 s
/// (decisions section 4). The old endnode itself gets its LID back at any time.
inline constexpr Duration kSpareLidRest = 60s;
/// LIDs that a switch needs for its spare ports, unless the topology names a higher number. More than ports,
/// because a LID rests after its program has ended and short-lived programs come and go.
[[nodiscard]] constexpr uint32_t spare_lids(uint32_t spare_ports) noexcept {
  return spare_ports == 0 ? 0 : std::max(64U, 16 * spare_ports);
}
/// Of a switch's `lids` for spare ports, the first three quarters go to endnodes without an identity. The
/// last quarter is for endnodes that have an identity and ask for the LID they had before: no other endnode
/// gets it meanwhile.
[[nodiscard]] constexpr uint32_t anonymous_lids(uint32_t lids) noexcept {
  return lids / 4 * 3;
}
/// Interval between attempts of an endnode whose link is down.
inline constexpr Duration kLinkRetryInterval = 100ms;

}  // namespace weft::fabric
