// How it works: each output forwards on its own. The arbiter chooses a lane among those with credit and a
// ready cell. The lane serves its inputs in turn, one cell at a time. A cell is ready when its tail has
// arrived, or with cut-through when its head has.
#include "fabric/switch/cell_outputs.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft::fabric {
namespace {

constexpr uint32_t kTurnsPerForwardMax = 64;

}  // namespace

CellOutputs::CellOutputs(const SwitchConfig& config, PortTable& ports, AwakeLinks& awake) noexcept
    : config_(config), ports_(ports), awake_(awake) {
  lane_outputs_.fill(kPortNone);
}

bool CellOutputs::pass_through(Port& in, Port& out, const CheckedFlit& checked) noexcept {
  const RxFlit& flit = checked.flit;
  if (((out.waiting_lanes | out.poison_lanes) != 0) || !lane_is_free(out, flit.vl, in.number)) return false;
  if (!(flit.head && flit.tail) && !config_.link.cut_through) return false;
  std::byte* to = out.link->claim(flit.vl);
  if (to == nullptr) return false;
  checked.copy_to(to);
  const int flags =
      (flit.head ? kFlitHead : 0) | (flit.tail ? kFlitTail : 0) | (flit.poison ? kFlitPoison : 0);
  commit(in, out,
         {flit.vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  out.counters.add(SwitchPortCounter::kFlitsPassed);
  return true;
}

void CellOutputs::note_passed(Port& in, Port& out, VirtualLane vl, uint32_t cells) noexcept {
  in.link->grant(vl, cells);
  out.counters.add(SwitchPortCounter::kFlitsOut, cells);
  out.counters.add(SwitchPortCounter::kFlitsPassed, cells);
  out.counters.add(SwitchPortCounter::kCellsOut, cells);
  out.egress[vl.value()].last = in.number;
  out.egress[vl.value()].progress_at = out.progress_at = ports_.now;
  unlock(out, vl);
}

void CellOutputs::enqueue(Port& in, Port& out, const CheckedFlit& checked) noexcept {
  const RxFlit& flit = checked.flit;
  if (!in.buffers[flit.vl.value()]->push(out.number, checked)) [[unlikely]] {
    // Cannot happen behind a link engine, which refuses flits without credit. On lane 15 the check of the
    // head found room for a cell.
    in.link->grant(flit.vl, drop_from(in, out, flit.vl, SwitchPortCounter::kDropTooLong));
    return;
  }
  Egress& lane = out.egress[flit.vl.value()];
  if (lane.flits++ == 0) lane.progress_at = ports_.now;
  out.waiting_lanes |= lane_bit(flit.vl);
  waiting_.insert(out.number);
  awake_.need(out);  // an awake link looks for room and asks its peer for credit
  update_ready(in, out, flit.vl);
}

int CellOutputs::forward() noexcept {
  int work = 0;
  waiting_.for_each([&](PortNumber number) {
    Port& out = ports_[number];
    if (out.up) work += forward_to(out);
    if ((out.waiting_lanes | out.poison_lanes) == 0) waiting_.erase(number);
  });
  return work;
}

int CellOutputs::forward_to(Port& out) noexcept {
  if (out.poison_lanes != 0) [[unlikely]]
    send_poison(out);
  int work = 0;
  for (uint32_t turn = 0; turn < kTurnsPerForwardMax; ++turn) {
    const uint32_t ready = ready_lanes(out);
    if (ready == 0) break;
    const VlArbiter::Choice choice = out.arbiter.choose(ready);
    const uint32_t bytes = send_turn(out, choice.vl, choice.bytes);
    if (bytes == 0) break;
    out.arbiter.charge(bytes);
    ++work;
  }
  return work;
}

uint32_t CellOutputs::ready_lanes(Port& out) const noexcept {
  uint32_t ready = 0;
  for (uint32_t left = out.waiting_lanes & ~out.poison_lanes; left != 0; left &= left - 1) {
    const VirtualLane vl = lane_at(static_cast<uint32_t>(std::countr_zero(left)));
    const Egress& lane = out.egress[vl.value()];
    const bool can_go = lane.owner != kPortNone ? lane.ready.contains(lane.owner) : !lane.ready.empty();
    if (!can_go || !lane_is_free(out, vl, lane.owner)) continue;
    // claim() also notes that this lane wants credit, so that the link asks the peer if none comes.
    if (out.link->claim(vl) != nullptr) ready |= lane_bit(vl);
  }
  return ready;
}

uint32_t CellOutputs::send_turn(Port& out, VirtualLane vl, uint32_t bytes_wanted) noexcept {
  Egress& lane = out.egress[vl.value()];
  uint32_t bytes = 0;
  for (uint32_t cells = 0; cells < kCellsPerArbitrationMax && bytes < bytes_wanted; ++cells) {
    const PortNumber from = lane.owner != kPortNone ? lane.owner : lane.ready.after(lane.last);
    if (from == kPortNone) break;
    Port& in = ports_[from];
    do {
      if (!lane.ready.contains(from)) return bytes;
      const uint32_t flit_bytes =
          kFlitHeaderBytes + static_cast<uint32_t>(in.buffers[vl.value()]->front(out.number).payload.size());
      if (!send_front(in, out, vl)) return bytes;
      bytes += flit_bytes;
    } while (lane.owner == from);
  }
  return bytes;
}

bool CellOutputs::send_front(Port& in, Port& out, VirtualLane vl) noexcept {
  std::byte* to = out.link->claim(vl);
  if (to == nullptr) return false;
  VlBuffer& buffer = *in.buffers[vl.value()];
  const QueuedFlit flit = buffer.front(out.number);
  if (!flit.payload.empty()) std::memcpy(to, flit.payload.data(), flit.payload.size());
  const int flags =
      (flit.head ? kFlitHead : 0) | (flit.tail ? kFlitTail : 0) | (flit.poison ? kFlitPoison : 0);
  commit(in, out,
         {vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  buffer.pop(out.number);
  if (in.up) [[likely]]
    awake_.give_credit(in, vl, 1);
  Egress& lane = out.egress[vl.value()];
  if (--lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  update_ready(in, out, vl);
  return true;
}

void CellOutputs::commit(Port& in, Port& out, const TxFlit& flit) noexcept {
  awake_.need(out);
  out.link->commit(flit);
  out.counters.add(SwitchPortCounter::kFlitsOut);
  out.egress[flit.vl.value()].progress_at = out.progress_at = ports_.now;
  if ((flit.flags & kFlitHead) != 0) lock(in, out, flit.vl);
  if ((flit.flags & kFlitTail) == 0) return;
  unlock(out, flit.vl);
  if ((flit.flags & kFlitPoison) == 0) {
    out.counters.add(SwitchPortCounter::kCellsOut);
  } else {
    out.counters.add(SwitchPortCounter::kPoisonOut);
    in.counters.add(SwitchPortCounter::kDropPoisoned);
  }
}

void CellOutputs::lock(Port& in, Port& out, VirtualLane vl) noexcept {
  out.egress[vl.value()].owner = out.egress[vl.value()].last = in.number;
  if (config_.link.cut_through) begun_.insert(out.number);
  if (config_.one_cell_per_lane) lane_outputs_[vl.value()] = out.number;
}

void CellOutputs::unlock(Port& out, VirtualLane vl) noexcept {
  out.egress[vl.value()].owner = kPortNone;
  if (lane_outputs_[vl.value()] == out.number) lane_outputs_[vl.value()] = kPortNone;
}

/// Tells the next hop to drop cells whose rest will not come (decisions 2.7).
void CellOutputs::send_poison(Port& out) noexcept {
  for (uint32_t left = out.poison_lanes; left != 0; left &= left - 1) {
    const VirtualLane vl = lane_at(static_cast<uint32_t>(std::countr_zero(left)));
    if (out.link->claim(vl) == nullptr) continue;
    out.link->commit({vl, kFlitTail | kFlitPoison, 0, 0});
    out.counters.add(SwitchPortCounter::kPoisonOut);
    out.counters.add(SwitchPortCounter::kFlitsOut);
    out.poison_lanes &= ~lane_bit(vl);
  }
}

void CellOutputs::update_ready(Port& in, Port& out, VirtualLane vl) noexcept {
  const VlBuffer& buffer = *in.buffers[vl.value()];
  Egress& lane = out.egress[vl.value()];
  const bool begun = config_.link.cut_through || lane.owner == in.number;
  const uint32_t sendable = begun ? buffer.flits(out.number) : buffer.whole_cells(out.number);
  if (sendable != 0) {
    lane.ready.insert(in.number);
  } else {
    lane.ready.erase(in.number);
  }
}

// ---- cells that are given up --------------------

void CellOutputs::break_off(Port& out, VirtualLane vl) noexcept {
  unlock(out, vl);
  if (!out.up) return;
  out.poison_lanes |= lane_bit(vl);
  waiting_.insert(out.number);
  awake_.need(out);  // a link that rests does not publish the poison
}

void CellOutputs::give_up(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  const uint32_t flits = drop_from(in, out, vl, reason);
  const bool same_link = in.up && in.link->incarnation() == in.incarnation;
  if (flits != 0 && same_link) awake_.give_credit(in, vl, flits);
}

void CellOutputs::drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  for (Port* in : ports_.attached) {
    if (in->buffers[vl.value()] != nullptr) give_up(*in, out, vl, reason);
  }
}

uint32_t CellOutputs::drop_from(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  Egress& lane = out.egress[vl.value()];
  uint32_t cells = 0;
  const uint32_t flits = in.buffers[vl.value()]->clear(out.number, cells);
  lane.flits -= flits;
  if (lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  lane.ready.erase(in.number);
  if (lane.owner == in.number) {
    break_off(out, vl);
    ++cells;
  }
  Ingress& coming = in.ingress[vl.value()];
  if (coming.open && coming.output == out.number && !coming.held_only) coming.dropping = true;
  in.counters.add(reason, cells);
  return flits;
}

void CellOutputs::drop_unfinished(Port& in, VirtualLane vl) noexcept {
  const Ingress& coming = in.ingress[vl.value()];
  if (!coming.open || coming.dropping || coming.held_only) return;
  Port& out = ports_[coming.output];
  Egress& lane = out.egress[vl.value()];
  bool stored = false;
  const uint32_t flits = in.buffers[vl.value()]->drop_unfinished(out.number, stored);
  lane.flits -= flits;
  if (lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  if (!stored && lane.owner == in.number) break_off(out, vl);  // its head has been sent already
  update_ready(in, out, vl);
  in.counters.add(SwitchPortCounter::kDropLinkReset);
}

bool CellOutputs::no_lane_is_owned(const Port& out) noexcept {
  const auto& lanes = out.egress;
  return std::all_of(lanes.begin(), lanes.end(), [](const Egress& l) { return l.owner == kPortNone; });
}

}  // namespace weft::fabric
