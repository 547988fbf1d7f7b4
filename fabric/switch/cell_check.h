// fabric/switch/cell_check.h -- what a cell must be to get through a switch: header sane, source true, route
// known, output there, rate kept. Asked once for each cell, about its head, at the port it enters by.
#pragma once

#include "fabric/switch/forwarding_table.h"
#include "fabric/switch/port.h"
#include "fabric/switch/standstill.h"
#include "fabric/switch/switch_config.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Owner: the switch's thread. Answers are the drop to count, kAdmitted, or kToGroup.
class CellCheck {
 public:
  CellCheck(const SwitchConfig& config, uint32_t flits_per_cell, PortTable& ports,
            const ForwardingTable& forwarding, Standstill& standstill) noexcept
      : config_(config),
        ports_(ports),
        forwarding_(forwarding),
        standstill_(standstill),
        flits_per_cell_(flits_per_cell) {}

  /// Every check that a cell meets; `output` is set where there is a route.
  [[nodiscard]] SwitchPortCounter admit(Port& in, VirtualLane vl, const CellHead& head,
                                        PortNumber& output) noexcept;
  /// Those that concern one output. `head` is null for a copy to a group.
  [[nodiscard]] SwitchPortCounter check_output(Port& in, VirtualLane vl, PortNumber output,
                                               const CellHead* head) noexcept;
  /// Does `out` get a copy of a multicast cell that came in by `in`?
  [[nodiscard]] bool copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept;

 private:
  [[nodiscard]] SwitchPortCounter check_rates(Port& in, VirtualLane vl, Qpn dest_qpn) noexcept;
  [[nodiscard]] bool leads_back(const Port& in, PortNumber output, Lid slid) const noexcept;

  const SwitchConfig& config_;
  PortTable& ports_;
  const ForwardingTable& forwarding_;
  Standstill& standstill_;
  uint32_t flits_per_cell_;
};

}  // namespace weft::fabric
