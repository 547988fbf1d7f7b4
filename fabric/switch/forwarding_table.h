// fabric/switch/forwarding_table.h -- maps a DLID to an output: one table for all inputs, or one per input
// (SAN-SW-05). One entry per LID as in InfiniBand's linear forwarding table, so that a subnet manager can
// take over.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/ids.h"
#include "messages/multicast.h"

namespace weft::fabric {

/// Number of a switch port; 0 is the management port, 1.. are links.
using PortNumber = uint16_t;
inline constexpr PortNumber kPortNone = 0xFFFF;
/// Stands in place of an output when the LID belongs to a multicast group: a copy leaves by each other port.
inline constexpr PortNumber kPortGroup = 0xFFFE;

/// Owner: the switch's thread. A look-up is one load. The table alone says which LIDs belong to groups: at
/// the start all LIDs that endnodes compute from GIDs (multicast_lid()), later also those that a subnet
/// manager sets.
class ForwardingTable {
 public:
  /// @param inputs  tables to keep: 1, or the number of ports for one per input
  explicit ForwardingTable(uint32_t inputs = 1)
      : inputs_(inputs), entries_(size_t{inputs} * kLids, kPortNone) {
    for (uint32_t lid = kLidMulticastFirst.value(); lid <= kLidMax; ++lid)
      set(Lid(static_cast<uint16_t>(lid)), kPortGroup);
  }

  [[nodiscard]] bool per_input() const noexcept { return inputs_ != 1; }
  /// Sets the entry in every table.
  void set(Lid dlid, PortNumber output) noexcept {
    for (uint32_t input = 0; input < inputs_; ++input) set_for(static_cast<PortNumber>(input), dlid, output);
  }
  /// Sets the entry for cells that enter by `input`. With a single table this applies to all inputs.
  void set_for(PortNumber input, Lid dlid, PortNumber output) noexcept {
    entries_[index(input, dlid)] = output;
  }
  /// The endnode of this LID has gone: restores the initial entry.
  void forget(Lid dlid) noexcept { set(dlid, is_multicast(dlid) ? kPortGroup : kPortNone); }
  /// kPortNone when the LID is unknown, kPortGroup when it belongs to a group.
  [[nodiscard]] PortNumber find(PortNumber input, Lid dlid) const noexcept {
    return entries_[index(input, dlid)];
  }

 private:
  static constexpr size_t kLids = 65536;
  [[nodiscard]] size_t index(PortNumber input, Lid dlid) const noexcept {
    return (per_input() ? size_t{input} * kLids : 0) + dlid.value();
  }

  uint32_t inputs_;
  std::vector<PortNumber> entries_;
};

}  // namespace weft::fabric
