// How it works: a fault decides about a cell when its head has been admitted. A cell that is to be late or to
// come twice is copied, and its credit goes back at once. The copy is sent when it is due, between other
// cells, because on one lane cells never mix. A cell that waits for a rate keeps its credit, as if it had not
// left the sender: it waits in front of the buffers, and later passes through them as if it had just come. A
// cell that a capture wants is copied as it comes in. Without rules and captures none of these functions is
// called.
#include "fabric/switch/fault_gate.h"

#include <fmt/format.h>

#include <cstring>

namespace weft::fabric {

void FaultGate::inspect(Port& in, const RxFlit& flit, const CellHead& head) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  FaultVerdict verdict = FaultVerdict::kPass;
  if (faults_.active()) verdict = strike(in, flit.vl, head);
  if (taps_.active()) {
    const PortNumber out = cell.dropping ? kPortNone : cell.output;
    cell.tapped = taps_.begin(in.number, out, flit, head, words_for(verdict, cell));
  }
  cell.special = cell.held != nullptr || cell.corrupt || cell.tapped;
}

/// Asks the rules about the cell whose head has just come in on `vl`.
FaultVerdict FaultGate::strike(Port& in, VirtualLane vl, const CellHead& head) noexcept {
  Ingress& cell = in.ingress[vl.value()];
  const FaultVerdict verdict = faults_.judge(in.number, cell.output, vl, head, ports_.now);
  switch (verdict) {
    case FaultVerdict::kPass:
    case FaultVerdict::kPace:
      pace(in, cell, vl);
      break;
    case FaultVerdict::kDrop:
      cell.dropping = true;
      break;
    case FaultVerdict::kCorrupt:
      // If a cell is one flit, the link checks its CRC, and a cell with a wrong CRC would not get beyond the
      // next link. So such a cell is dropped here.
      cell.corrupt = !whole_cells_;
      cell.dropping = !cell.corrupt;
      break;
    case FaultVerdict::kDuplicate:
      cell.held = faults_.begin_hold(in.number, cell.output, vl);
      if (cell.held != nullptr) in.counters.add(SwitchPortCounter::kCellsIn);
      break;
    case FaultVerdict::kHold:
      cell.held = faults_.begin_hold(in.number, cell.output, vl);
      cell.held_only = cell.held != nullptr;
      cell.dropping = cell.held == nullptr;
      break;
  }
  const bool lost = verdict != FaultVerdict::kPass && verdict != FaultVerdict::kPace;
  if (cell.dropping && lost) in.counters.add(SwitchPortCounter::kDropFault);
  return verdict;
}

/// The cell waits for the rate that struck it, or behind cells of its lane that wait for one. If a lane has
/// fewer credits than a cell has flits, the cell cannot wait and passes.
void FaultGate::pace(Port& in, Ingress& cell, VirtualLane vl) noexcept {
  RateQueues& rates = faults_.rates();
  if (vl == kVlManagement) {
    const uint32_t room = in.buffers[vl.value()]->capacity() / flits_per_cell_;
    if (rates.waiting(in.number, vl) >= room) {
      cell.dropping = true;
      return in.counters.add(SwitchPortCounter::kDropManagementFull);
    }
  } else if (in.link->params().credits_per_lane < flits_per_cell_) {
    return;
  }
  cell.held = faults_.begin_pace(in.number, cell.output, vl);
  cell.held_only = cell.held != nullptr;
  if (cell.held != nullptr) cell.held->incarnation = in.incarnation;
}

/// The note for captures about the cell, after strike().
std::string FaultGate::words_for(FaultVerdict verdict, const Ingress& cell) const {
  if (verdict == FaultVerdict::kPass) return {};
  const char* fate = cell.dropping                         ? "lost here"
                     : cell.corrupt                        ? "damaged here"
                     : verdict == FaultVerdict::kDuplicate ? "sent on twice from here"
                                                           : "held back here";
  return fmt::format("{}: {}", fate, faults_.verdict_words());
}

bool FaultGate::copy_is_struck(const Port& in, const Port& out, VirtualLane vl,
                               const CellHead& head) noexcept {
  if (!faults_.active()) return false;
  const FaultVerdict verdict = faults_.judge(in.number, out.number, vl, head, ports_.now);
  return verdict == FaultVerdict::kDrop || verdict == FaultVerdict::kCorrupt;
}

void FaultGate::end_strike(Port& in, Ingress& cell) noexcept {
  if (cell.held != nullptr) {
    const bool paced = cell.held->paced_by != 0;
    if (paced && in.up) in.link->grant(cell.held->vl, static_cast<uint32_t>(cell.held->flits.size()));
    faults_.abandon(*cell.held);
  }
  cell.held = nullptr;
  cell.held_only = false;
  cell.corrupt = false;
  cell.tapped = false;
  cell.special = false;
}

void FaultGate::drop_too_long(Port& in, Ingress& cell) noexcept {
  if (cell.held == nullptr) return;
  in.counters.add(SwitchPortCounter::kDropTooLong);
  end_strike(in, cell);
  cell.dropping = true;
}

bool FaultGate::keep_back(Port& in, const RxFlit& flit, const CellHead* head) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  if (cell.tapped && head == nullptr) taps_.add(in.number, flit);
  const bool kept = cell.held_only;
  if (cell.held != nullptr) {
    if (kept && cell.held->paced_by == 0) in.link->grant(flit.vl, 1);
    if (faults_.add_flit(*cell.held, flit, head, whole_cells_, ports_.now))
      in.counters.add(SwitchPortCounter::kCellsPaced);
  }
  if (cell.corrupt && flit.tail) {
    cell.corrupt = false;
    RxFlit spoiled = flit;
    spoiled.poison = true;
    outputs_.take(in, ports_[cell.output], {spoiled, head, whole_cells_});
    return true;
  }
  if (flit.tail) {
    cell.held = nullptr;  // the held copy is complete
    cell.held_only = false;
  }
  return kept;
}

void FaultGate::forget(Port& port) noexcept {
  for (Ingress& cell : port.ingress) {
    if (cell.held != nullptr) port.counters.add(SwitchPortCounter::kDropLinkReset);
    end_strike(port, cell);
  }
  give_up(faults_.rates().take_to(port.number), SwitchPortCounter::kDropPortDown);
  faults_.rates().forget_credits(port.number);
  faults_.forget(port.number, [this](const HeldCell& cell) {
    ports_[cell.input].counters.add(SwitchPortCounter::kDropLinkReset);
  });
}

void FaultGate::drop_left(Port& port) noexcept {
  give_up(faults_.rates().take_from(port.number), SwitchPortCounter::kDropLinkReset);
}

int FaultGate::release_held() noexcept {
  return release_paced() +
         faults_.release(ports_.now, [this](const HeldCell& cell) { return send_held(cell); });
}

// ---- cells that wait for a rate --------------------

int FaultGate::release_paced() noexcept {
  RateQueues& rates = faults_.rates();
  if (rates.idle()) return 0;
  RateQueues::Cells due = rates.take_due(ports_.now);
  for (const auto& cell : due) pass_on(*cell);
  const auto work = static_cast<int>(due.size());
  rates.reuse(std::move(due));
  give_up(rates.take_overdue(ports_.now), SwitchPortCounter::kDropLifetime);
  for (const RateQueues::Credits& spare : rates.take_spare_credits(ports_.now))
    give_credit(spare.input, spare.vl, spare.incarnation, spare.flits);
  rates.reuse({});
  faults_.rates_changed();
  return work;
}

/// The cell goes on as if it had just come. Its place in the buffers is free, because it has kept its credit.
void FaultGate::pass_on(const HeldCell& cell) noexcept {
  Port& in = ports_[cell.input];
  Port& out = ports_[cell.output];
  const auto flits = static_cast<uint32_t>(cell.flits.size());
  SwitchPortCounter refused = out.up ? kAdmitted : SwitchPortCounter::kDropPortDown;
  if (cell.vl == kVlManagement && in.buffers[cell.vl.value()]->free_flits() < flits)
    refused = SwitchPortCounter::kDropManagementFull;
  if (refused != kAdmitted) {
    in.counters.add(refused);
    return give_credit(cell.input, cell.vl, cell.incarnation, flits);
  }
  uint32_t left = 0;
  size_t at = 0;
  for (uint32_t i = 0; i < flits; ++i) {
    const HeldCell::Flit& part = cell.flits[i];
    RxFlit flit;
    flit.vl = cell.vl;
    flit.head = i == 0;
    flit.tail = i + 1 == flits;
    flit.poison = part.poison;
    flit.cell_crc = part.cell_crc;
    flit.payload = std::span(cell.bytes).subspan(at, part.bytes);
    at += part.bytes;
    const CheckedFlit checked{flit};
    if (outputs_.pass_through(in, out, checked)) {
      ++left;
    } else {
      outputs_.enqueue(in, out, checked);
    }
  }
  if (left == 0 || cell.vl == kVlManagement) return;
  const uint32_t capacity = in.up ? in.link->params().credits_per_lane : 0;
  if (capacity == 0 || in.incarnation != cell.incarnation) return;
  give_credit(cell.input, cell.vl, cell.incarnation, faults_.rates().credits_for(cell, left, capacity));
}

void FaultGate::give_up(RateQueues::Cells cells, SwitchPortCounter reason) noexcept {
  for (const auto& cell : cells) {
    ports_[cell->input].counters.add(reason);
    give_credit(cell->input, cell->vl, cell->incarnation, static_cast<uint32_t>(cell->flits.size()));
  }
  if (cells.empty()) return;
  faults_.rates().reuse(std::move(cells));
  faults_.rates_changed();
}

/// Gives credits back if the link that they belong to still lives.
void FaultGate::give_credit(PortNumber input, VirtualLane vl, uint64_t incarnation, uint32_t flits) noexcept {
  Port& in = ports_[input];
  const bool same_link = in.up && in.incarnation == incarnation && in.link->incarnation() == incarnation;
  if (same_link && flits != 0) awake_.give_credit(in, vl, flits);
}

// ---- cells that are late --------------------

/// Sends a held cell, all its flits at once. False when its output has no room yet.
bool FaultGate::send_held(const HeldCell& cell) noexcept {
  Port& in = ports_[cell.input];
  Port& out = ports_[cell.output];
  if (!out.up) {
    in.counters.add(SwitchPortCounter::kDropPortDown);
    return true;
  }
  if (ports_.now - cell.due >= kHeadOfQueueLifetime) {
    in.counters.add(SwitchPortCounter::kDropLifetime);
    return true;
  }
  awake_.need(out);
  // A cell that let another cell overtake must not overtake that one in turn.
  if (ports_.now < cell.latest && out.egress[cell.vl.value()].flits != 0) return false;
  const bool poisoned = (out.poison_lanes & lane_bit(cell.vl)) != 0;
  if (!outputs_.lane_is_free(out, cell.vl, kPortNone) || poisoned ||
      out.link->credits(cell.vl) < cell.flits.size()) {
    static_cast<void>(out.link->claim(cell.vl));  // notes that this lane wants credit
    return false;
  }
  size_t at = 0;
  for (size_t i = 0; i < cell.flits.size(); ++i) {
    const HeldCell::Flit& flit = cell.flits[i];
    std::byte* to = out.link->claim(cell.vl);
    if (to == nullptr) {
      if (i == 0) return false;
      // The ring is full in the middle of the cell: the next hop drops the cell.
      outputs_.break_off(out, cell.vl);
      in.counters.add(SwitchPortCounter::kDropFault);
      return true;
    }
    std::memcpy(to, cell.bytes.data() + at, flit.bytes);
    at += flit.bytes;
    const int flags = (i == 0 ? kFlitHead : 0) | (i + 1 == cell.flits.size() ? kFlitTail : 0) |
                      (flit.poison ? kFlitPoison : 0);
    outputs_.commit(in, out, {cell.vl, static_cast<uint8_t>(flags), flit.bytes, flit.cell_crc});
  }
  return true;
}

}  // namespace weft::fabric
