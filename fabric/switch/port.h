// fabric/switch/port.h -- the state of one switch port: its link engine, the flit buffers of its input lanes,
// the locks and the arbiter of its output. The parts of the switch move the flits (fabric/switch/switch.h).
#pragma once

#include <array>
#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/token_bucket.h"
#include "fabric/link/link_engine.h"
#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/live_faults.h"
#include "fabric/switch/vl_arbiter.h"
#include "fabric/switch/vl_buffer.h"

namespace weft::fabric {

/// Invariant, summed over the ports at every moment (SAN-NODE-01): cells in + copies = cells out + drops +
/// waiting cells.
enum class SwitchPortCounter : uint8_t {
  kCellsIn,   // heads that arrived
  kCellsOut,  // tails that left
  kFlitsIn,
  kFlitsOut,
  kFlitsPassed,        // part of kFlitsOut: went from ring to ring without waiting
  kPoisonOut,          // tails that told the next hop to drop the cell
  kCellsCopied,        // copies of multicast cells beyond the first, and answers made here
  kStandstillAnswers,  // part of kCellsCopied: answers that the destination takes no cells
  kCellsPaced,         // waited for a rate, with their credit (docs/faults.md)
  // Drops, each counted at the port by which the cell came in.
  kDropTooShort,  // head flit without a whole header
  kDropVersion,
  kDropAddress,        // impossible prefix or LID
  kDropLaneMismatch,   // cell and flit name different lanes
  kDropForeignSource,  // source LID or subnet does not belong to this port (decisions section 4)
  kDropReversePath,    // from a neighbouring switch that is not on the route to the source
  kDropForeignSubnet,  // destination in another subnet, and there is no router
  kDropNoRoute,
  kDropPortDown,
  kDropNoLane,  // the output has fewer lanes
  kDropLoop,    // would go back to the switch from which it came
  kDropManagementFull,
  kDropManagementRate,
  kDropGsiRate,        // too many cells for QP1
  kDropStandstill,     // the output moved nothing for 25 ms, and its cells took the room of others
  kDropLifetime,       // the output moved nothing for 2 s
  kDropLinkReset,      // input link reset during the cell, or before the queued cell was sent
  kDropPoisoned,       // the previous hop marked the cell
  kDropTooLong,        // more flits than the largest cell has
  kDropMulticast,      // a copy for a busy output, or a multicast cell of several flits
  kDropMulticastRate,  // too many copies of cells of one input
  kDropFault,          // a fault on demand (docs/faults.md)
  kCount,
};
[[nodiscard]] constexpr CounterNames<SwitchPortCounter> counter_labels(SwitchPortCounter /*of*/) noexcept {
  return {
      "cells_in",
      "cells_out",
      "flits_in",
      "flits_out",
      "flits_passed",
      "poison_out",
      "cells_copied",
      "standstill_answers",
      "cells_paced",
      "drop_too_short",
      "drop_version",
      "drop_address",
      "drop_lane_mismatch",
      "drop_foreign_source",
      "drop_reverse_path",
      "drop_foreign_subnet",
      "drop_no_route",
      "drop_port_down",
      "drop_no_lane",
      "drop_loop",
      "drop_management_full",
      "drop_management_rate",
      "drop_gsi_rate",
      "drop_standstill",
      "drop_lifetime",
      "drop_link_reset",
      "drop_poisoned",
      "drop_too_long",
      "drop_multicast",
      "drop_multicast_rate",
      "drop_fault",
  };
}
inline constexpr SwitchPortCounter kFirstDrop = SwitchPortCounter::kDropTooShort;
/// Result of a check that found no reason to drop: the cell is forwarded.
inline constexpr SwitchPortCounter kAdmitted = SwitchPortCounter::kCount;
/// Result of a check: the cell goes to a group. kAdmitted and kToGroup are not counted.
inline constexpr auto kToGroup = static_cast<SwitchPortCounter>(static_cast<uint8_t>(kAdmitted) + 1);

/// A set of ports; after() gives the next member in turn.
class PortSet {
 public:
  static constexpr uint32_t kPortsMax = 256;
  void insert(PortNumber port) noexcept { words_[port / 64] |= uint64_t{1} << (port % 64); }
  void erase(PortNumber port) noexcept { words_[port / 64] &= ~(uint64_t{1} << (port % 64)); }
  [[nodiscard]] bool contains(PortNumber port) const noexcept {
    return (words_[port / 64] >> (port % 64) & 1) != 0;
  }
  [[nodiscard]] uint32_t size() const noexcept {
    uint32_t out = 0;
    for (const uint64_t word : words_) out += static_cast<uint32_t>(std::popcount(word));
    return out;
  }
  /// Calls `act` for each member in ascending order. Members inserted meanwhile may be left out.
  template <class Act>
  void for_each(Act act) const {
    for (uint32_t word = 0; word < words_.size(); ++word) {
      for (uint64_t left = words_[word]; left != 0; left &= left - 1)
        act(static_cast<PortNumber>(word * 64 + static_cast<uint32_t>(std::countr_zero(left))));
    }
  }
  [[nodiscard]] bool empty() const noexcept { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  /// The first member above `port`, else the lowest one; kPortNone of an empty set.
  [[nodiscard]] PortNumber after(PortNumber port) const noexcept;

 private:
  std::array<uint64_t, kPortsMax / 64> words_{};
};

/// The cell that is coming in on one lane.
struct Ingress {
  bool open = false;       // the head has come, the tail has not
  bool dropping = false;   // already counted; its further flits are discarded
  bool corrupt = false;    // a fault: its tail is sent as poison
  bool held_only = false;  // a fault: goes into `held` and is not forwarded now
  bool tapped = false;     // its flits are collected for captures
  bool special = false;    // one of the above, or `held`: keep_back() looks at each flit
  uint32_t flits = 0;      // flits so far
  PortNumber output = kPortNone;
  HeldCell* held = nullptr;  // a fault: the copy of its flits
};

/// One lane of an output.
struct Egress {
  PortNumber owner = kPortNone;  // input whose cell is being sent: no other input may send here (SAN-VL-07)
  PortNumber last = 0;           // input served last: the next turn begins behind it
  PortSet ready;                 // inputs with a cell that may begin or continue
  uint32_t flits = 0;            // waiting for this lane, from all inputs
  Instant progress_at{};         // time of the last flit sent, or of the first one queued
};

[[nodiscard]] constexpr VirtualLane lane_at(uint32_t index) noexcept {
  return VirtualLane(static_cast<uint8_t>(index));
}

struct Port {
  explicit Port(PortNumber port_number) noexcept : number(port_number) {}

  PortNumber number;
  LinkEngine* link = nullptr;
  bool up = false;
  bool peer_is_endnode = false;
  uint64_t incarnation = 0;
  uint32_t lanes = 0;
  Lid lid;
  bool rests = false;      // the link is up and is polled only after its bell or deadline
  bool looked_at = false;  // polled since it was woken
  Instant received_at{};   // time of the last flits

  // Input.
  std::array<std::unique_ptr<VlBuffer>, kVlCount> buffers;
  std::array<Ingress, kVlCount> ingress{};
  TokenBucket management_rate{0, 0};
  TokenBucket gsi_rate{0, 0};
  TokenBucket multicast_rate{0, 0};
  TokenBucket answer_rate{0, 0};  // answers to this port for endnodes that stand still

  // Output. One bit per lane.
  uint32_t waiting_lanes = 0;  // lanes with flits queued
  uint32_t poison_lanes = 0;   // lanes that owe the next hop a poisoned tail
  uint32_t stalled_lanes = 0;  // lanes that stand still: drop cells that would take the room of others
  uint32_t expired_lanes = 0;  // part of stalled_lanes: lifetime exceeded, drop every cell at once
  Instant progress_at{};       // time of the last flit sent on any lane
  // An endnode that takes no cells, although its ring may have room. Checked by ticks (Standstill).
  bool takes_none = false;
  uint64_t taken_mark = 0;
  Instant untaken_since = kNever;  // kNever: the endnode has taken all flits
  std::array<Egress, kVlCount> egress{};
  VlArbiter arbiter;

  CounterSet<SwitchPortCounter> counters;
};

/// The ports of one switch and the time of the present turn, shared by all parts.
struct PortTable {
  [[nodiscard]] Port& operator[](PortNumber number) const noexcept { return *all[number]; }

  std::vector<std::unique_ptr<Port>> all;  // by number
  std::vector<Port*> attached;             // ports with a link
  Instant now{};                           // time of the present turn
};

}  // namespace weft::fabric
