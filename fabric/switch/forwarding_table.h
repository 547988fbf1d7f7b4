// fabric/switch/forwarding_table.h -- which output a DLID leaves by: one table for all inputs, or one per
// input (SAN-SW-05). An entry per LID as in InfiniBand's linear forwarding table, so that a subnet manager
// can take over.
#pragma once

#include <cstdint>
#include <vector>

#include "messages/ids.h"
#include "messages/multicast.h"

namespace weft::fabric {

/// Number of a switch port; 0 is the management port, 1.. are links.
using PortNumber = uint16_t;
inline constexpr PortNumber kPortNone = 0xFFFF;
/// In place of an output: the LID is a multicast group's, a copy leaves by each other port.
inline constexpr PortNumber kPortGroup = 0xFFFE;

/// Owner: the switch's thread. Look-up is one load. The table alone says which LIDs are those of groups: from
/// the start all that endnodes compute from Gids (multicast_lid()), and what a subnet manager sets.
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
  /// Sets the entry for cells that enter by `input`; in a single table that is every cell.
  void set_for(PortNumber input, Lid dlid, PortNumber output) noexcept {
    entries_[index(input, dlid)] = output;
  }
  /// The endnode of this LID has gone: the entry is what it was at the start.
  void forget(Lid dlid) noexcept { set(dlid, is_multicast(dlid) ? kPortGroup : kPortNone); }
  /// kPortNone when the LID is unknown, kPortGroup when it is a group's.
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
