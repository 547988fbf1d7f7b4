// fabric/switch/port.h -- one port of a switch: its link engine, the flit buffers of its input lanes, the
// locks and the arbiter of its output. State only; the parts of the switch move the flits
// (fabric/switch/switch.h).
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

/// Cells in + copies = cells out + drops + cells that wait, at every moment, summed over the ports
/// (SAN-NODE-01).
enum class SwitchPortCounter : uint8_t {
  kCellsIn,   // heads that arrived
  kCellsOut,  // tails that left
  kFlitsIn,
  kFlitsOut,
  kFlitsPassed,        // of kFlitsOut: went from ring to ring without waiting
  kPoisonOut,          // tails that told the next hop to forget the cell
  kCellsCopied,        // more copies of multicast cells than there were cells, and answers made here
  kStandstillAnswers,  // of those: told that the destination takes no cells
  // Drops, each counted at the port the cell came in by.
  kDropTooShort,  // head flit without a whole header
  kDropVersion,
  kDropAddress,        // prefix or LID impossible
  kDropLaneMismatch,   // the cell names another lane than its flit
  kDropForeignSource,  // source LID or subnet is not this port's (decisions section 4)
  kDropReversePath,    // from a neighbouring switch that the route to the source does not lead to
  kDropForeignSubnet,  // destination in another subnet, and no router here
  kDropNoRoute,
  kDropPortDown,
  kDropNoLane,  // the output has fewer lanes
  kDropLoop,    // would go back to the switch it came from
  kDropManagementFull,
  kDropManagementRate,
  kDropGsiRate,        // too many cells for QP1
  kDropStandstill,     // the output moved nothing for 25 ms, and its cells crowded those for others
  kDropLifetime,       // the output moved nothing for 2 s
  kDropLinkReset,      // the input link went down in the middle of the cell, or its next came before it left
  kDropPoisoned,       // the previous hop said so
  kDropTooLong,        // more flits than the largest cell has, and no tail among them
  kDropMulticast,      // a copy for an output that was busy, or a multicast cell of several flits
  kDropMulticastRate,  // too many copies of one input's cells
  kDropFault,          // by a fault that was asked for (docs/faults.md)
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
/// Of checks that name the drop to count: none, the cell goes on.
inline constexpr SwitchPortCounter kAdmitted = SwitchPortCounter::kCount;
/// Of the same: the cell goes to a group. Neither of the two is counted.
inline constexpr auto kToGroup = static_cast<SwitchPortCounter>(static_cast<uint8_t>(kAdmitted) + 1);

/// A set of ports with a fair successor.
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
  /// Calls `act` for each member, in order; members that come meanwhile are left out.
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
  bool open = false;       // head seen, tail not yet
  bool dropping = false;   // already counted; the rest is swallowed
  bool corrupt = false;    // a fault: its tail tells the next hop to drop it
  bool held_only = false;  // a fault: goes into `held` instead of on its way
  bool tapped = false;     // its flits are put together for captures
  bool special = false;    // one of these, or `held`: keep_back() looks at each flit
  uint32_t flits = 0;      // of it so far
  PortNumber output = kPortNone;
  HeldCell* held = nullptr;  // a fault: where its flits are copied
};

/// One lane of an output.
struct Egress {
  PortNumber owner = kPortNone;  // input whose cell is on the wire: no other may send here (SAN-VL-07)
  PortNumber last = 0;           // input served last: turns go round from here
  PortSet ready;                 // inputs with a cell that may start, or go on
  uint32_t flits = 0;            // waiting for this lane, whichever input
  Instant progress_at{};         // last flit sent, or first one queued
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
  bool rests = false;      // its link is up, and looked at only when it rings or its time has come
  bool looked_at = false;  // since it was woken
  Instant received_at{};   // last flits

  // Input.
  std::array<std::unique_ptr<VlBuffer>, kVlCount> buffers;
  std::array<Ingress, kVlCount> ingress{};
  TokenBucket management_rate{0, 0};
  TokenBucket gsi_rate{0, 0};
  TokenBucket multicast_rate{0, 0};
  TokenBucket answer_rate{0, 0};  // of answers to it for endnodes that stand still

  // Output. Lanes as bits.
  uint32_t waiting_lanes = 0;  // lanes with flits queued
  uint32_t poison_lanes = 0;   // lanes that owe the next hop a poisoned tail
  uint32_t stalled_lanes = 0;  // stand still: drop what would crowd others out
  uint32_t expired_lanes = 0;  // of those: lifetime passed, drop everything at once
  Instant progress_at{};       // last flit sent on any lane
  // An endnode that takes no cells, though its ring may have room. Looked at by ticks (Standstill).
  bool takes_none = false;
  uint64_t taken_mark = 0;
  Instant untaken_since = kNever;  // kNever: it has taken all
  std::array<Egress, kVlCount> egress{};
  VlArbiter arbiter;

  CounterSet<SwitchPortCounter> counters;
};

/// The ports of one switch, and the time of its turn, for all its parts.
struct PortTable {
  [[nodiscard]] Port& operator[](PortNumber number) const noexcept { return *all[number]; }

  std::vector<std::unique_ptr<Port>> all;  // by number
  std::vector<Port*> attached;             // that have a link
  Instant now{};                           // of this turn
};

}  // namespace weft::fabric
