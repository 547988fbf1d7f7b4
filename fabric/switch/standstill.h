// fabric/switch/standstill.h -- outputs that do not move: their cells must not take all of a sender's credit,
// which would stop that sender towards all endnodes. docs/flow_control.md ("An output that stands still").
#pragma once

#include "fabric/switch/cell_outputs.h"
#include "fabric/switch/port.h"
#include "fabric/switch/switch_config.h"

namespace weft::fabric {

/// Owner: the switch's thread.
class Standstill {
 public:
  Standstill(const SwitchConfig& config, uint32_t flits_per_cell, PortTable& ports,
             CellOutputs& outputs) noexcept
      : config_(config), ports_(ports), outputs_(outputs), flits_per_cell_(flits_per_cell) {}

  /// A cell has come for a lane that stood still at the last tick. Returns the drop to count, or kAdmitted.
  /// If the endnode takes no cells, the cell's sender gets an answer. `head` is null for a copy to a group.
  [[nodiscard]] SwitchPortCounter check(Port& in, Port& out, VirtualLane vl, const CellHead* head) noexcept;
  /// Looks at outputs with waiting flits, every 5 ms.
  void poll() noexcept {
    if (ports_.now >= next_tick_) [[unlikely]]
      tick();
  }
  /// Time of the next tick; kNever when no flits wait.
  [[nodiscard]] Instant deadline() const noexcept { return outputs_.waiting().empty() ? kNever : next_tick_; }

 private:
  void tick() noexcept;
  void look_at(Port& out) noexcept;
  void end_overdue_cells(Port& out) noexcept;
  void look_at_peer(Port& out) noexcept;
  void answer_for_peer(Port& in, VirtualLane vl, const CellHead& head) noexcept;
  [[nodiscard]] static bool can_send(Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] bool stands_still(Port& out, VirtualLane vl, Duration limit) const noexcept;
  [[nodiscard]] static bool crowded(const Port& in, VirtualLane vl, uint32_t more) noexcept;
  void make_room(Port& out, VirtualLane vl) noexcept;

  const SwitchConfig& config_;
  PortTable& ports_;
  CellOutputs& outputs_;
  uint32_t flits_per_cell_;
  Instant next_tick_{};
};

}  // namespace weft::fabric
