// fabric/switch/cell_outputs.h -- the outputs of a switch: flits that pass from ring to ring, flits that
// wait, the choice of lane and input, and cells that will stay incomplete. A cell owns its lane of the output
// from head to tail, so cells never mix (SAN-VL-07). docs/flow_control.md.
#pragma once

#include <array>
#include <cstdint>

#include "fabric/switch/awake_links.h"
#include "fabric/switch/port.h"
#include "fabric/switch/switch_config.h"
#include "fabric/switch/vl_buffer.h"

namespace weft::fabric {

/// Owner: the switch's thread. `in` is the port by which a cell arrives, `out` the port by which it leaves.
class CellOutputs {
 public:
  CellOutputs(const SwitchConfig& config, PortTable& ports, AwakeLinks& awake) noexcept;

  // ---- flits on their way --------------------
  /// Copies a flit from ring to ring. Only when nothing waits for this output, so that order and arbitration
  /// hold. False: the flit was not sent.
  [[nodiscard]] bool pass_through(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  /// pass_through() of a whole cell, as far as each cell needs it. The output's link is awake. note_passed()
  /// must follow in the same turn, before the lane is used otherwise.
  [[nodiscard]] bool pass_whole(const Port& in, Port& out, const CheckedFlit& checked) const noexcept;
  /// `cells` whole cells have passed from `in` to a lane of `out`: gives their credit back.
  void note_passed(Port& in, Port& out, VirtualLane vl, uint32_t cells) noexcept;
  /// Puts the flit into the buffer whose place its credit granted.
  void enqueue(Port& in, Port& out, const CheckedFlit& checked) noexcept;
  /// pass_through() if possible, else enqueue(). The credit goes back when the flit has left.
  void take(Port& in, Port& out, const CheckedFlit& checked) noexcept {
    if (pass_through(in, out, checked)) {
      in.link->grant(checked.flit.vl, 1);
    } else {
      enqueue(in, out, checked);
    }
  }
  /// Sends waiting flits that can be sent. Returns work done.
  int forward() noexcept;
  /// Outputs with waiting flits or poisoned tails.
  [[nodiscard]] const PortSet& waiting() const noexcept { return waiting_; }

  // ---- cells from outside the buffers --------------------
  /// True when `input` may send on this lane now; kPortNone asks for any input.
  [[nodiscard]] bool lane_is_free(const Port& out, VirtualLane vl, PortNumber input) const noexcept {
    const PortNumber owner = out.egress[vl.value()].owner;
    if (owner != kPortNone && owner != input) return false;
    if (!config_.one_cell_per_lane) return true;
    const PortNumber held = lane_outputs_[vl.value()];
    return held == kPortNone || held == out.number;
  }
  /// Commits a claimed flit and updates locks and counters.
  void commit(Port& in, Port& out, const TxFlit& flit) noexcept;
  /// The rest of the cell that owns the lane will not come: the next hop gets a poisoned tail.
  void break_off(Port& out, VirtualLane vl) noexcept;

  // ---- cells that are given up --------------------
  /// Drops the flits that wait from one input for one lane of an output, and breaks off the cell of this
  /// input that is partly sent. Cells are counted at the input. @return the number of dropped flits. The
  /// caller returns their credits if their link still lives.
  [[nodiscard]] uint32_t drop_from(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// As drop_from(), and gives the credits back, unless the input's link has come up anew.
  void give_up(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// Drops all flits that wait for one lane of an output.
  void drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept;
  /// Drops the incomplete cell on one lane of an input whose link has gone.
  void drop_unfinished(Port& in, VirtualLane vl) noexcept;
  /// Calls `act` for outputs that are up and on which a cell has begun; the cell may have ended meanwhile.
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
  PortSet waiting_;                                // outputs with queued flits or a poisoned tail to send
  PortSet begun_;                                  // outputs on which a cell has begun; it may have ended
  std::array<PortNumber, kVlCount> lane_outputs_;  // one_cell_per_lane: output of the lane's current cell
};

/// Inline, because nearly every cell passes here.
[[gnu::always_inline]] inline bool CellOutputs::pass_whole(const Port& in, Port& out,
                                                           const CheckedFlit& checked) const noexcept {
  const RxFlit& flit = checked.flit;
  if ((out.waiting_lanes | out.poison_lanes) != 0 || !lane_is_free(out, flit.vl, in.number)) return false;
  std::byte* to = out.link->claim(flit.vl);
  if (to == nullptr) return false;
  checked.copy_to(to);
  out.link->commit(
      {flit.vl, kFlitHead | kFlitTail, static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  return true;
}

}  // namespace weft::fabric
