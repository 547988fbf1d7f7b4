// fabric/link/link_counters.h -- counters per link and per lane; `weft stat` shows them by these names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/counters.h"

namespace weft::fabric {

enum class LinkCounter : uint8_t {
  kUp,             // gauge: 1 while the link is up
  kIncarnation,    // gauge
  kFlitsSent,      // data flits, each counted once
  kFlitsReceived,  // data flits accepted in order
  kBurstsSent,     // hand-overs of data flits to the carrier
  kAckFlitsSent,
  kAckFlitsReceived,
  kCreditFlitsSent,
  kCreditFlitsReceived,
  kRepeatsRequested,
  kRepeatsServed,
  kRereads,        // repeats read again from the carrier's slots
  kProbesSent,     // questions to the peer, because flits were unacknowledged or credit was missing
  kDuplicates,     // data flits that had arrived before
  kOutOfSequence,  // data flits dropped behind a gap
  kTooShort,
  kBadLength,
  kBadCrc,
  kBadCellCrc,  // good flit header, damaged cell
  kBadKind,
  kBadReserved,
  kBadLane,
  kBadFlags,
  kBadFraming,  // head without tail or tail without head
  kAckBeyondSent,
  kCreditBeyondSent,
  kSentWithoutCredit,
  kRepeatsExhausted,
  kCarrierFaults,
  kReceiveOverruns,   // links ended because more data waited than a peer's window allows
  kPeerGone,          // hang-ups
  kPeerStalled,       // no sign of life for 1 s that this end waited for one (decisions 2.9)
  kResets,            // times the link came up again
  kFlitsLostAtReset,  // unacknowledged when the link went down (decisions 2.11)
  kTornCells,         // damaged in every repeat behind a good flit header: dropped, the link goes on
  kSlotStalls,        // claims refused because no slot was free
  kCount,
};
[[nodiscard]] constexpr CounterNames<LinkCounter> counter_labels(LinkCounter /*of*/) noexcept {
  return {
      "up",
      "incarnation",
      "flits_sent",
      "flits_received",
      "bursts_sent",
      "ack_flits_sent",
      "ack_flits_received",
      "credit_flits_sent",
      "credit_flits_received",
      "repeats_requested",
      "repeats_served",
      "rereads",
      "probes_sent",
      "duplicates",
      "out_of_sequence",
      "flit_too_short",
      "flit_bad_length",
      "flit_bad_crc",
      "flit_bad_cell_crc",
      "flit_bad_kind",
      "flit_bad_reserved",
      "flit_bad_lane",
      "flit_bad_flags",
      "flit_bad_framing",
      "ack_beyond_sent",
      "credit_beyond_sent",
      "sent_without_credit",
      "repeats_exhausted",
      "carrier_faults",
      "receive_overruns",
      "peer_gone",
      "peer_stalled",
      "resets",
      "flits_lost_at_reset",
      "torn_cells",
      "slot_stalls",
  };
}

enum class LaneCounter : uint8_t {
  kFlitsSent,
  kFlitsReceived,
  kCredits,       // gauge: flits we may send now
  kHeld,          // gauge: flits received and not yet given back
  kCreditStalls,  // times the lane ran out of credit with a flit waiting
  kCount,
};
[[nodiscard]] constexpr CounterNames<LaneCounter> counter_labels(LaneCounter /*of*/) noexcept {
  return {"flits_sent", "flits_received", "credits", "held", "credit_stalls"};
}

}  // namespace weft::fabric
