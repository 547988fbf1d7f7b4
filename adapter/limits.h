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

/// Packets that a requester may have unacknowledged and for which a responder keeps state. Both sides of
/// every QP use this number, so it belongs to the wire protocol. 512 packets of one cell cover 40 us at 13 M
/// cells/s, eight times the round trip over shared memory. With cells of the default size they cover the
/// whole byte window.
inline constexpr uint32_t kPacketWindow = 512;
static_assert((kPacketWindow & (kPacketWindow - 1)) == 0 && (Psn::kMask + 1) % kPacketWindow == 0,
              "a PSN's low bits are its place in the window");

/// Packets per allocation unit (adapter/queues/packet_window.h): 1 KiB at a requester and 2 KiB at a
/// responder. So thousands of QPs with one message in flight each need little memory.
inline constexpr uint32_t kChunkPackets = 16;

/// Memory of an idle QP beyond its work queues; tests count it.
inline constexpr uint32_t kIdleRcQpBytesMax = 4096;
inline constexpr uint32_t kIdleUdQpBytesMax = 2048;

/// Bytes that a QP may have unacknowledged: eight of the largest packets at the default cell size, and eight
/// full bursts of a ZeroMQ link. Six threads work on these bursts; with four bursts some of them were idle
/// (docs/performance.md). Over shared memory the link's slots limit the bytes in flight well before
/// (decisions P7).
inline constexpr uint64_t kByteWindow = 2048 * 1024;

/// Cells per acknowledgement and longest delay of an acknowledgement (decisions 2.4).
inline constexpr uint32_t kCellsPerAck = 16;
inline constexpr Duration kAckDelay = 50us;
/// ACK cells that one turn sends for one QP. The rest waits for the next turn.
inline constexpr uint32_t kAcksPerTurn = 4;
/// Strict mode: cells waiting for their own ACK. Beyond this number cells are dropped and repeated by the
/// sender.
inline constexpr uint32_t kStrictAcksMax = 256;
static_assert((kStrictAcksMax & (kStrictAcksMax - 1)) == 0);

/// Limits of one poll(): cells sent per QP before the next QP's turn, and in total (decisions P9). A turn of
/// one QP fills a burst of a ZeroMQ link.
inline constexpr uint32_t kCellsPerQpTurn = 64;
inline constexpr uint32_t kCellsPerTurn = 128;
inline constexpr uint32_t kQpsPerTurn = 64;
inline constexpr uint32_t kTimersPerTurn = 64;
inline constexpr uint32_t kAckQpsPerTurn = 256;
/// QPs of one lane that try again when the lane has credit. With little credit, further ones would find none.
inline constexpr uint32_t kWakesPerTurn = 64;
/// QPs that one turn informs of a port that came up or expired, or of an overrun CQ.
inline constexpr uint32_t kSweptPerTurn = 64;
/// With more QPs than this, the memory of the next QP is prefetched before its turn: about 15 cache lines per
/// direction.
inline constexpr size_t kQpsInCache = 64;
/// Distance in cells between the prefetch of a cell's QP and the cell's processing.
inline constexpr size_t kCellsAskedAhead = 3;
/// WQEs without data (bind, invalidate, delay) that one QP executes in a row.
inline constexpr uint32_t kLocalWqesPerTurn = 16;

/// The longest acknowledgement timeout that the verbs can express: 4.096 us times 2^31.
inline constexpr Duration kAckTimeoutMax = std::chrono::nanoseconds(4096) * (int64_t{1} << 31);
/// Time whose bytes a QP with a rate limit may send at once after a pause, so that a late timer does not
/// reduce the rate.
inline constexpr Duration kRateBurst = 1ms;

/// Retransmission: the timer follows the measured round trip within these limits. The lower limit is longer
/// than the delays of a busy scheduler. The upper limit is the QP's ack_timeout divided by
/// kRepeatsPerAckTimeout.
inline constexpr Duration kRetransmitMin = 10ms;
inline constexpr uint32_t kRepeatsPerAckTimeout = 4;
inline constexpr uint32_t kRetransmitCellsMax = 256;
/// If the switch says that the peer stands still, the requester waits beyond its retries, at most this long
/// without an acknowledgement. This is enough for a minute in a debugger, but not for a program that never
/// continues.
inline constexpr Duration kStandstillMax = 60s;
static_assert(kStandstillMax <= std::chrono::milliseconds(UINT16_MAX), "SendProgress::still_ms");
/// Shortest interval between repairs of the same gap, for links whose measured round trip is near zero.
inline constexpr Duration kRepairIntervalMin = 20us;
/// If cells have been missing within this time, the last cells or their acknowledgement may be lost too, and
/// then no answer comes. After a silence of one round trip, and at least kRepairSilenceMin, some cells are
/// sent again to get an answer. The interval doubles each time. Without losses no timer runs this early.
inline constexpr Duration kGapRemembered = 1s;
inline constexpr Duration kRepairSilenceMin = 50us;
inline constexpr uint32_t kRepairCellsMax = 64;
/// Searches for gaps among packets in flight within one repair interval. New packets are searched at once.
inline constexpr uint32_t kRepairRounds = 4;

/// Value of QpAttr::rnr_retry for "without limit".
inline constexpr uint8_t kRnrForEver = 7;
/// A request that waits without limit for a receive request of the peer is reported after this time.
inline constexpr Duration kRnrWaitTold = 1s;

/// RDMA reads waiting at a responder, per QP (one per packet). Power of two.
inline constexpr uint32_t kReadsPerQp = 16;
/// Packets of an RDMA read are short, because a lost response cell repeats its packet.
inline constexpr uint32_t kReadCellsMax = 16;

/// Time that QPs survive a local port that is down (decisions 2.12).
inline constexpr Duration kPortDownLimit = 10s;
/// Time before a QPN is reused (decisions section 4).
inline constexpr Duration kQpnRest = 60s;
/// Time before a context of reliable datagrams is reused for another remote. The context prevents that a late
/// copy of an executed message is executed again. If the peer still repeats a message, the context is used
/// and stays.
inline constexpr Duration kRdContextRest = 60s;
/// Message numbers of reliable datagrams that a sender skips if the far side knows later numbers than the
/// sender does. That happens when the sender has started anew; late copies of messages that it had given up
/// before may still be in flight, at most this number.
inline constexpr uint32_t kRdNumbersSkipped = 1024;
inline constexpr uint32_t kLoopbackCells = 64;
/// Cells that a port delivers at a time. Each may be the first of a packet whose window has no memory yet.
inline constexpr uint32_t kCellsPerReceive = fabric::kFlitsPerReceiveMax;
static_assert(kLoopbackCells <= kCellsPerReceive);

/// Keys that the arriving NIC does not know (key_questions.h): questions without an answer at a time, and new
/// questions per second. A computer asks once for each key that moves, so a thousand keys may move in a
/// second; a peer that guesses keys costs no more than that.
inline constexpr uint32_t kKeyQuestionsMax = 256;
inline constexpr uint32_t kKeyQuestionsPerSecond = 1024;
/// Of these for QPs whose key was invalid within the second, so that guesses leave the rest to others.
inline constexpr uint32_t kKeyGuessesPerSecond = 128;
/// QPs that wait for answers, cells that are kept for them, and cells of one QP.
inline constexpr uint32_t kKeyWaitersMax = 1024;
inline constexpr uint32_t kKeyCellsMax = 1024;
inline constexpr uint32_t kKeyCellsPerQp = 256;
/// Time that the program component may take for an answer. Longer than any pause of its thread that is not a
/// fault; shorter than the retries of a peer.
inline constexpr Duration kKeyAnswerTime = 1s;

/// Several NICs: ways that queue pairs find by themselves (transport/ways.h). First interval between two
/// questions; it doubles, kWayDoublings times.
inline constexpr Duration kWayAskAgain = 5ms;
inline constexpr uint32_t kWayDoublings = 4;
/// Questions at the start of a connection. A peer that answers none of them has no other ways.
inline constexpr uint32_t kWayAsksMax = 12;
/// When another way has answered: time left for the present one. A peer that was only late answers by all.
inline constexpr Duration kWayPatience = 1ms;
/// A question that found no credit is sent again after this time.
inline constexpr Duration kWayNoCredit = 100us;

/// Ports per adapter: port numbers have one byte.
inline constexpr uint32_t kPortsMax = 255;

}  // namespace weft::adapter
