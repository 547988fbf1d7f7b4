// fabric/switch/fault_gate.h -- applies faults on demand and captures to the cells of a switch, after a cell
// was admitted and before it is forwarded. docs/faults.md.
#pragma once

#include "fabric/switch/cell_outputs.h"
#include "fabric/switch/cell_taps.h"
#include "fabric/switch/live_faults.h"
#include "fabric/switch/port.h"
#include "messages/cell.h"

namespace weft::fabric {

/// Owner: the switch's thread. Without rules, captures and held cells the switch does not call it.
class FaultGate {
 public:
  FaultGate(uint32_t flits_per_cell, PortTable& ports, AwakeLinks& awake, CellOutputs& outputs,
            LiveFaults& faults, CellTaps& taps) noexcept
      : ports_(ports),
        awake_(awake),
        outputs_(outputs),
        faults_(faults),
        taps_(taps),
        flits_per_cell_(flits_per_cell),
        whole_cells_(flits_per_cell == 1) {}

  /// A head has come in while rules or captures are in force.
  void inspect(Port& in, const RxFlit& flit, const CellHead& head) noexcept;
  /// One flit of a cell that a fault has struck or a capture wants. True when the flit is not forwarded now.
  [[nodiscard]] bool keep_back(Port& in, const RxFlit& flit, const CellHead* head) noexcept;
  /// A copy for a member of a multicast group. Faults can only drop it: true means that it is lost.
  [[nodiscard]] bool copy_is_struck(const Port& in, const Port& out, VirtualLane vl,
                                    const CellHead& head) noexcept;
  /// A new head comes, or the link has gone: the state of the last cell must not affect the next one.
  void end_strike(Port& in, Ingress& cell) noexcept;
  /// The cell has more flits than a cell may have: no more of it is held.
  void drop_too_long(Port& in, Ingress& cell) noexcept;
  /// The link of `port` has gone: drops its incomplete cells, and the cells that are held for it.
  void forget(Port& port) noexcept;
  /// A new link of `port` needs the buffers of cells that its last one left in front of a rate.
  void drop_left(Port& port) noexcept;
  /// Sends held cells that are due. Returns work done.
  int release_held() noexcept;

 private:
  FaultVerdict strike(Port& in, VirtualLane vl, const CellHead& head) noexcept;
  [[nodiscard]] std::string words_for(FaultVerdict verdict, const Ingress& cell) const;
  [[nodiscard]] bool send_held(const HeldCell& cell) noexcept;
  void pace(Port& in, Ingress& cell, VirtualLane vl) noexcept;
  int release_paced() noexcept;
  void pass_on(const HeldCell& cell) noexcept;
  void give_up(RateQueues::Cells cells, SwitchPortCounter reason) noexcept;
  void give_credit(PortNumber input, VirtualLane vl, uint64_t incarnation, uint32_t flits) noexcept;

  PortTable& ports_;
  AwakeLinks& awake_;
  CellOutputs& outputs_;
  LiveFaults& faults_;
  CellTaps& taps_;
  uint32_t flits_per_cell_;
  bool whole_cells_;  // each flit is a whole cell
};

}  // namespace weft::fabric
