// How it works: a fault decides about a cell when its head has been admitted. A cell that is to be late or to
// come twice is copied, and its credit goes back at once. The copy is sent when it is due, between other
// cells, because on one lane cells never mix. A cell that a capture wants is copied as it comes in. Without
// rules and captures none of these functions is called.
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
  if (cell.dropping) in.counters.add(SwitchPortCounter::kDropFault);
  return verdict;
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

void FaultGate::end_strike(Ingress& cell) noexcept {
  if (cell.held != nullptr) faults_.abandon(*cell.held);
  cell.held = nullptr;
  cell.held_only = false;
  cell.corrupt = false;
  cell.tapped = false;
  cell.special = false;
}

bool FaultGate::keep_back(Port& in, const RxFlit& flit, const CellHead* head) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  if (cell.tapped && head == nullptr) taps_.add(in.number, flit);
  if (cell.held != nullptr) faults_.add_flit(*cell.held, flit, head, ports_.now);
  const bool kept = cell.held_only;
  if (kept) in.link->grant(flit.vl, 1);
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
    end_strike(cell);
  }
  faults_.forget(port.number, [this](const HeldCell& cell) {
    ports_[cell.input].counters.add(SwitchPortCounter::kDropLinkReset);
  });
}

int FaultGate::release_held() noexcept {
  return faults_.release(ports_.now, [this](const HeldCell& cell) { return send_held(cell); });
}

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
