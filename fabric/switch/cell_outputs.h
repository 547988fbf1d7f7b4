// fabric/switch/cell_outputs.h -- the outputs of a switch: what goes from ring to ring, what waits and for
// whom, which lane and input is next, and cells that will not be whole. From head to tail a cell owns its
// lane of the output, so cells never mix (SAN-VL-07). docs/flow_control.md.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/switch/awake_links.h"
#include "fabric/switch/port.h"
#include "fabric/switch/switch_config.h"
#include "fabric/switch/vl_buffer.h"

namespace weft::fabric {

/// Owner: the switch's thread. `in` and `out` are the ports by which a cell comes and goes.
class CellOutputs {
 public:
  CellOutputs(const SwitchConfig& config, PortTable& ports, AwakeLinks& awake) noexcept;

  // ---- flits on their way --------------------
  /// Ring to ring: only when nothing waits for this output, so that order and arbitration hold. False: the
  /// flit did not go.
  [[nodiscard]] bool pass_through(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  /// The flit waits in the buffer that its credit stands for.
  void enqueue(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  /// One or the other; its credit goes back when it has left.
  void take(Port& in, Port& out, const CheckedFlit& checked) noexcept {
    if (pass_through(in, out, checked)) {
      in.link->grant(checked.flit.vl, 1);
    } else {
      enqueue(in, out, checked);
    }
  }
  /// Sends what waits and can go. Returns work done.
  int forward() noexcept;
  /// Outputs on which something waits.
  [[nodiscard]] const PortSet& waiting() const noexcept { return waiting_; }

  // ---- cells from outside the buffers --------------------
  /// True when `input` may send on this lane now; kPortNone asks for any input.
  [[nodiscard]] bool lane_is_free(const Port& out, VirtualLane vl, PortNumber input) const noexcept;
  /// Commits a claimed flit and keeps locks and counters.
  void commit(Port& in, Port& out, const TxFlit& flit) noexcept;
  /// The rest of the cell that owns the lane will not come: the next hop is told.
  void break_off(Port& out, VirtualLane vl) noexcept;

  // ---- what is given up --------------------
  /// Drops what waits from one input for one lane of an output, and the cell that is half across. Cells are
  /// counted at the input. @return flits dropped, whose credits the caller returns if their link still lives.
  [[nodiscard]] uint32_t drop_from(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// As drop_from(), and gives the credits back, but none to a link that is a new one already.
  void give_up(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// Everything that waits for one lane of an output.
  void drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// The cell that is half here on one lane of an input whose link has gone.
  void drop_unfinished(Port& in, VirtualLane vl) noexcept;
  /// Calls `act` for outputs that are up and that a cell has begun to cross, and has perhaps ended since.
  template <class Act>
  void for_each_begun(Act act) noexcept {
    begun_.for_each([&](PortNumber number) {
      if (ports_[number].up) act(ports_[number]);
      if (no_lane_is_owned(ports_[number])) begun_.erase(number);
    });
  }

 private:
  int forward_to(Port& out) noexcept;
  [[nodiscard]] uint32_t ready_lanes(Port& out) const noexcept;
  uint32_t send_turn(Port& out, VirtualLane vl, uint32_t bytes_wanted) noexcept;
  [[nodiscard]] bool send_front(Port& in, Port& out, VirtualLane vl) noexcept;
  void send_poison(Port& out) noexcept;
  void update_ready(Port& in, Port& out, VirtualLane vl) noexcept;
  void lock(Port& in, Port& out, VirtualLane vl) noexcept;
  void unlock(Port& out, VirtualLane vl) noexcept;
  [[nodiscard]] static bool no_lane_is_owned(const Port& out) noexcept;

  const SwitchConfig& config_;
  PortTable& ports_;
  AwakeLinks& awake_;
  PortSet waiting_;                                // outputs with flits queued, or that owe a poisoned tail
  PortSet begun_;                                  // outputs a cell has begun to cross, and maybe ended since
  std::array<PortNumber, kVlCount> lane_outputs_;  // one_cell_per_lane: where the lane's cell goes now
};

}  // namespace weft::fabric
