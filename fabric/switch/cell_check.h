// fabric/switch/cell_check.h -- the checks that a cell must pass in a switch: valid header, true source,
// known route, output up, rate kept. Done once per cell, on its head, at the input port.
#pragma once

#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/port.h"
#include "fabric/switch/standstill.h"
#include "fabric/switch/switch_config.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Owner: the switch's thread. Answers: the counter of the drop, kAdmitted, or kToGroup.
class CellCheck {
 public:
  CellCheck(const SwitchConfig& config, uint32_t flits_per_cell, PortTable& ports,
            const ForwardingTable& forwarding, Standstill& standstill) noexcept
      : config_(config),
        ports_(ports),
        forwarding_(forwarding),
        standstill_(standstill),
        flits_per_cell_(flits_per_cell) {}

  /// All checks of a cell. `output` is set if the checks got as far as the route.
  [[nodiscard]] SwitchPortCounter admit(Port& in, VirtualLane vl, const CellHead& head,
                                        PortNumber& output) noexcept;
  /// The output of a cell that admit() would admit, if no rate and no lane that stands still is concerned;
  /// otherwise null. Changes nothing. All cells with CellHead::same_ends() on this lane get the same answer
  /// until the end of the turn.
  [[nodiscard]] Port* plain_output(const Port& in, VirtualLane vl, const CellHead& head) const noexcept;
  /// The checks that concern one output. `head` is null for a copy to a group.
  [[nodiscard]] SwitchPortCounter check_output(Port& in, VirtualLane vl, PortNumber output,
                                               const CellHead* head) noexcept;
  /// True when `out` gets a copy of a multicast cell that came in by `in`.
  [[nodiscard]] bool copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept;

 private:
  [[nodiscard]] SwitchPortCounter check_head(const Port& in, VirtualLane vl,
                                             const CellHead& head) const noexcept;
  [[nodiscard]] static SwitchPortCounter check_lane(const Port& in, const Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] SwitchPortCounter check_rates(Port& in, VirtualLane vl, Qpn dest_qpn) noexcept;
  [[nodiscard]] SwitchPortCounter check_group(Port& in, Lid group) noexcept;
  [[nodiscard]] bool leads_back(const Port& in, PortNumber output, Lid slid) const noexcept;

  const SwitchConfig& config_;
  PortTable& ports_;
  const ForwardingTable& forwarding_;
  Standstill& standstill_;
  uint32_t flits_per_cell_;
};

}  // namespace weft::fabric
