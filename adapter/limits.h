// adapter/limits.h -- tunables of the channel adapter, each with its reason (house style 23).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "fabric/link/limits.h"
#include "messages/cell.h"
#include "messages/ids.h"

namespace weft::adapter {

/// Packets a requester may have unacknowledged and a responder keeps state for. Both sides of every QP use
/// this number, so it belongs to the wire. 512 packets of one cell cover 40 us at 13 M cells/s, eight times
/// the round trip over shared memory, and the whole byte window when they are cells of the default size.
inline constexpr uint32_t kPacketWindow = 512;
static_assert((kPacketWindow & (kPacketWindow - 1)) == 0 && (Psn::kMask + 1) % kPacketWindow == 0,
              "a PSN's low bits are its place in the window");

/// Packets whose memory comes and goes together (adapter/queues/packet_window.h): 1 KiB of a requester and
/// 2 KiB of a responder, so that thousands of QPs with one message each under way cost little.
inline constexpr uint32_t kChunkPackets = 16;

/// Memory of an idle QP beyond its work queues; tests count it.
inline constexpr uint32_t kIdleRcQpBytesMax = 4096;
inline constexpr uint32_t kIdleUdQpBytesMax = 2048;

/// Bytes a QP may have unacknowledged: eight of the largest packets at the default cell, and eight full
/// bursts of a ZeroMQ link: six threads work on them, and four bursts left some with nothing to do
/// (docs/performance.md). A shared-memory link's slots bound what is in flight there well before (decisions
/// P7).
inline constexpr uint64_t kByteWindow = 2048 * 1024;

/// Acknowledgement by decisions 2.4.
inline constexpr uint32_t kCellsPerAck = 16;
inline constexpr Duration kAckDelay = 50us;
/// ACK cells that one turn sends for one QP; what is left waits for the next turn.
inline constexpr uint32_t kAcksPerTurn = 4;
/// Strict mode: cells waiting for their own ACK. When full, cells are dropped and come again.
inline constexpr uint32_t kStrictAcksMax = 256;
static_assert((kStrictAcksMax & (kStrictAcksMax - 1)) == 0);

/// Work of one poll(): cells sent per QP before the next one has its turn, and in all (decisions P9). A turn
/// of one QP fills a burst of a ZeroMQ link.
inline constexpr uint32_t kCellsPerQpTurn = 64;
inline constexpr uint32_t kCellsPerTurn = 128;
inline constexpr uint32_t kQpsPerTurn = 64;
inline constexpr uint32_t kTimersPerTurn = 64;
inline constexpr uint32_t kAckQpsPerTurn = 256;
/// QPs of one lane that try again when it has credit; with little credit the others would find none.
inline constexpr uint32_t kWakesPerTurn = 64;
/// QPs that one turn tells of a port that came up or expired, or of a CQ that has run over.
inline constexpr uint32_t kSweptPerTurn = 64;
/// With more QPs than this the memory of the next one is asked for before its turn: some 15 lines of cache
/// for each direction of one.
inline constexpr size_t kQpsInCache = 64;
/// Cells between asking for the memory of a cell's QP and the cell's turn.
inline constexpr size_t kCellsAskedAhead = 3;
/// WQEs without data (bind, invalidate, delay) executed in a row for one QP.
inline constexpr uint32_t kLocalWqesPerTurn = 16;

/// The longest acknowledgement timeout the verbs can name: 4.096 us times 2^31.
inline constexpr Duration kAckTimeoutMax = std::chrono::nanoseconds(4096) * (int64_t{1} << 31);
/// What a QP with a rate limit may send at once after it was quiet: what a timer is late costs no rate.
inline constexpr Duration kRateBurst = 1ms;

/// Retransmission: the timer follows the measured round trip between these bounds; the upper one is this part
/// of the QP's ack_timeout. The lower one is above what a busy scheduler adds.
inline constexpr Duration kRetransmitMin = 10ms;
inline constexpr uint32_t kRepeatsPerAckTimeout = 4;
inline constexpr uint32_t kRetransmitCellsMax = 256;
/// A peer whose switch says that it stands still is waited for beyond its retries, without an acknowledgement
/// for at most this long: a minute in a debugger, not a program that never goes on.
inline constexpr Duration kStandstillMax = 60s;
static_assert(kStandstillMax <= std::chrono::milliseconds(UINT16_MAX), "SendProgress::still_ms");
/// A gap is repaired again after at least this long, for links whose round trip measures as nothing.
inline constexpr Duration kRepairIntervalMin = 20us;
/// Where cells have been missing so lately, the last ones or their acknowledgement may be lost as well, and
/// then nothing more is heard: after a round trip of silence, and at least this, some cells ask, half as
/// often each time. Where nothing is lost no timer runs so soon.
inline constexpr Duration kGapRemembered = 1s;
inline constexpr Duration kRepairSilenceMin = 50us;
inline constexpr uint32_t kRepairCellsMax = 64;
/// Looks for gaps among packets in flight within one repair interval; new packets are looked at once.
inline constexpr uint32_t kRepairRounds = 4;

/// A QpAttr::rnr_retry that means "for ever".
inline constexpr uint8_t kRnrForEver = 7;
/// A request that the peer has no receive for, and that waits for ever, is reported after this long.
inline constexpr Duration kRnrWaitTold = 1s;

/// RDMA reads a responder keeps waiting per QP (one per packet). Power of two.
inline constexpr uint32_t kReadsPerQp = 16;
/// Packets of an RDMA read are kept short: a lost response cell repeats the packet.
inline constexpr uint32_t kReadCellsMax = 16;

/// QPs outlive a dead local port this long (decisions 2.12).
inline constexpr Duration kPortDownLimit = 10s;
/// A QPN is not given out again before (decisions section 4).
inline constexpr Duration kQpnRest = 60s;
/// A context of reliable datagrams is not given to another remote before: what it knows keeps a late copy of
/// an executed message from being executed again. A peer that still repeats something uses it, and it stays.
inline constexpr Duration kRdContextRest = 60s;
/// Numbers of reliable datagrams that a sender leaves out when the far side knows later ones than it: as many
/// messages as were given up in a row, each as a late copy under way, before it started anew.
inline constexpr uint32_t kRdNumbersSkipped = 1024;
inline constexpr uint32_t kLoopbackCells = 64;
/// Cells that a port gives at a time. Each may be the first of a packet whose window has no memory yet.
inline constexpr uint32_t kCellsPerReceive = fabric::kFlitsPerReceiveMax;
static_assert(kLoopbackCells <= kCellsPerReceive);
/// Ports of an adapter: their numbers are one byte.
inline constexpr uint32_t kPortsMax = 255;

}  // namespace weft::adapter
