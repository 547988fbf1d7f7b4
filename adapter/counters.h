// adapter/counters.h -- counters of an adapter and of each of its QPs; those of a port are in adapter/port.h.
// Every drop, NAK, retry and stall has its own counter (house style 24).
#pragma once

#include <array>
#include <string_view>

#include "adapter/memory/memory_table.h"
#include "base/counters.h"
#include "messages/cell.h"

namespace weft {

/// Cells that decode_cell() refused, by reason.
[[nodiscard]] constexpr CounterNames<CellError> counter_labels(CellError /*of*/) noexcept {
  return {"none",   "too_short", "version", "reserved",    "address",
          "opcode", "flags",     "length",  "cell_number", "crc"};
}

}  // namespace weft

namespace weft::adapter {

enum class AdapterCounter : uint8_t {
  kAgentCalls,        // calls above the line in adapter.h (PUSH-WQ-07)
  kDropOtherLid,      // addressed to a LID that is not ours
  kDropPortInactive,  // came in by a port that is not in the active state
  kDropNoQp,          // no QP with this number, or an old number
  kDropQpState,       // the QP does not receive in its state
  kDropSource,        // forged: not from the bound peer (PUSH-CHAN-07)
  kDropQkey,
  kDropPkey,            // from another partition
  kDropManagementLane,  // for QP0, by another lane than 15
  kDropMulticast,       // to a group of which no QP here is a member
  kDropXrcSrq,          // names no shared receive queue of the target's domain
  kDropProtocol,        // a raw frame of a protocol that no QP has registered for
  kDropService,         // an operation that the QP's service does not have
  kDropSegment,         // not full and not the last cell, or longer than a cell payload
  kDropNoRecvWqe,       // unacknowledged message that found no receive WQE
  kDropAccess,     // refused: right, key or range of an RDMA operation, or memory of a receive WQE (C-23)
  kDropLength,     // longer than its receive WQE or than a message may be
  kDropRdContext,  // no context left for another remote (SAN-XPORT-12)
  kStashFull,
  kDropWindow,  // no memory for a packet ahead of the one expected (AdapterLimits::window_chunks)
  kQpErrors,    // QPs that moved to the error state without their program's request
  kCqOverruns,
  kStandstillsHeard,  // a switch answered that the peer takes no cells
  // Datagrams that leave by memory windows and are lost (docs/window.md).
  kDropFifoFull,  // the peer takes none, so its FIFO stays full, or a fault cuts it off
  kDropDma,       // the device did not move the record
  // Several NICs in one computer: keys that the arriving NIC does not know (docs/key_migration.md).
  kKeyQuestions,         // reported to the program component
  kKeysHandedOver,       // answers: the NIC got the key
  kKeysInvalid,          // answers: no NIC has the key
  kKeysWithdrawn,        // handed over, and ended since
  kKeyCellsHeld,         // kept until an answer came
  kKeyCellsDiscarded,    // their key was invalid (MIG-STATE-04)
  kKeyQuestionsLimited,  // cells dropped: kKeyQuestionsPerSecond or kKeyQuestionsMax is reached
  kKeyHoldFull,          // dropped: no room for a cell that waits, or for a key in the list of the NIC
  kKeyUnanswered,        // questions without an answer within kKeyAnswerTime
  // And ways that queue pairs find by themselves (adapter/transport/ways.h).
  kWaySearches,   // the peer was silent, or the port went down
  kWaysTaken,     // a search has found another way
  kWaysFollowed,  // the peer has taken another way
  kCount,
};
[[nodiscard]] constexpr CounterNames<AdapterCounter> counter_labels(AdapterCounter /*of*/) noexcept {
  return {"agent_calls",
          "drop_other_lid",
          "drop_port_inactive",
          "drop_no_qp",
          "drop_qp_state",
          "drop_source",
          "drop_qkey",
          "drop_pkey",
          "drop_management_lane",
          "drop_multicast",
          "drop_xrc_srq",
          "drop_protocol",
          "drop_service",
          "drop_segment",
          "drop_no_recv_wqe",
          "drop_access",
          "drop_length",
          "drop_rd_context",
          "stash_full",
          "drop_window",
          "qp_errors",
          "cq_overruns",
          "standstills_heard",
          "drop_fifo_full",
          "drop_dma",
          "key_questions",
          "keys_handed_over",
          "keys_invalid",
          "keys_withdrawn",
          "key_cells_held",
          "key_cells_discarded",
          "key_questions_limited",
          "key_hold_full",
          "key_unanswered",
          "way_searches",
          "ways_taken",
          "ways_followed"};
}

enum class QpCounter : uint8_t {
  kCellsSent,  // counters of every message come first, in one cache line
  kCellsReceived,
  kMessagesSent,
  kBytesSent,  // of completed messages
  kAcksSent,
  kAcksReceived,
  kMessagesReceived,
  kBytesReceived,
  kNaksSent,
  kNaksReceived,
  kRnrNaksSent,
  kRnrNaksReceived,
  kCellsRepeated,
  kTimeouts,  // retransmission timer expired
  kDuplicateCells,
  kGapsSeen,  // a cell arrived out of order (acknowledged services)
  kCellsStashed,
  kCellsBehindLater,    // came after a later packet had written the same bytes
  kBeyondWindow,        // PSN outside the window: neither expected nor a duplicate
  kMissedPackets,       // unacknowledged connected services: lost without repair (decisions 2.19)
  kAccessRefused,       // RDMA refused: the QP's right, key, range
  kProtocolViolations,  // cells of one packet that contradict each other, impossible acknowledgements
  kCreditStalls,        // turns that ended without credit or slot
  kRequestsRefused,     // operation not offered, too long, wrong Q_Key, or no usable receive WQE
  kPacketCrcErrors,     // packets whose own sum was wrong (PUSH-CELL-08)
  kReadsNotRepeated,    // read request with an old PSN that differs from the executed one
  kReadsBeyondLimit,    // reads and atomics beyond max_dest_rd_atomic
  kStrictAcksFull,      // dropped because kStrictAcksMax cells wait for their acknowledgements
  kCount,
};
[[nodiscard]] constexpr CounterNames<QpCounter> counter_labels(QpCounter /*of*/) noexcept {
  return {"cells_sent",          "cells_received",     "messages_sent",
          "bytes_sent",          "acks_sent",          "acks_received",
          "messages_received",   "bytes_received",     "naks_sent",
          "naks_received",       "rnr_naks_sent",      "rnr_naks_received",
          "cells_repeated",      "timeouts",           "duplicate_cells",
          "gaps_seen",           "cells_stashed",      "cells_behind_later",
          "beyond_window",       "missed_packets",     "access_refused",
          "protocol_violations", "credit_stalls",      "requests_refused",
          "packet_crc_errors",   "reads_not_repeated", "reads_beyond_limit",
          "strict_acks_full"};
}

/// Accesses that the memory table refused, by reason.
[[nodiscard]] constexpr CounterNames<AccessFault> counter_labels(AccessFault /*of*/) noexcept {
  return {"none",          "not_valid",     "wrong_type",     "wrong_pd",      "wrong_instance",
          "out_of_bounds", "right_missing", "no_window_bind", "already_bound", "bad_flags",
          "no_room",       "not_mapped",    "wrong_qp"};
}

}  // namespace weft::adapter
