// How it works: the head flit of a cell decides -- header sane, source true, rate kept, route known, output
// there -- once, and the rest of the cell follows. The flit lies in memory that its sender can still change,
// so the header is read once into registers and leaves from there (CheckedFlit). A flit goes from ring to
// ring when its output has nothing waiting and credit at hand; otherwise it waits in the buffer its credit
// stands for, in the queue of its output. So the input ring is always drained, whatever an output does
// (decisions P4), and the credit goes back when the flit leaves.
#include "fabric/switch/switch.h"
#include "messages/cell.h"
#include "messages/multicast.h"

namespace weft::fabric {
namespace {

constexpr SwitchPortCounter kAdmitted = SwitchPortCounter::kCount;

}  // namespace

int Switch::receive_flits(Port& in) noexcept {
  const std::span<const RxFlit> flits = in.link->receive();
  if (flits.empty()) return 0;
  for (const RxFlit& flit : flits) take_flit(in, flit);
  in.link->release();
  in.received_at = now_;
  in.counters.add(SwitchPortCounter::kFlitsIn, flits.size());
  return static_cast<int>(flits.size());
}

void Switch::take_flit(Port& in, const RxFlit& flit) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  CellHead head;
  if (flit.head) {
    if (cell.special) [[unlikely]]
      end_strike(cell);
    in.counters.add(SwitchPortCounter::kCellsIn);
    SwitchPortCounter reason = SwitchPortCounter::kDropTooShort;
    if (flit.payload.size() >= kCellHeaderBytes) [[likely]] {
      head = CellHead(flit.payload.data());
      reason = admit(in, flit.vl, head, cell.output);
      if (reason == SwitchPortCounter::kDropNoRoute && is_multicast(head.dlid())) [[unlikely]] {
        if (flit.tail && flit.vl != kVlManagement) {
          cell.open = false;
          cell.dropping = true;  // nothing of it is left to come
          return copy_to_group(in, flit, head);
        }
        reason = SwitchPortCounter::kDropMulticast;
      }
    }
    cell.flits = 0;
    cell.dropping = reason != kAdmitted;
    if (cell.dropping) [[unlikely]]
      in.counters.add(reason);
    else if (faults_.active() || taps_.active()) [[unlikely]]
      inspect(in, flit, head);
  }
  cell.open = !flit.tail;
  if (cell.dropping) [[unlikely]] {
    in.link->grant(flit.vl, 1);
    return;
  }
  Port& out = *ports_[cell.output];
  if (++cell.flits > flits_per_cell_) [[unlikely]] {
    in.link->grant(flit.vl, 1 + drop_from(in, out, flit.vl, SwitchPortCounter::kDropTooLong));
    return;
  }
  if (cell.special && keep_back(in, flit, flit.head ? &head : nullptr)) [[unlikely]]
    return;
  const CheckedFlit checked{flit, flit.head ? &head : nullptr, flits_per_cell_ == 1};
  if (pass_through(in, out, checked)) {
    in.link->grant(flit.vl, 1);
  } else {
    enqueue(in, out, checked);
  }
}

/// A whole cell to a multicast LID that no endnode has: a copy for each other port. Nobody knows members
/// here, so all endnodes get one. Copies are made while their outputs are free; the buffer that stands for
/// the cell's credit may hold one for an output that is not, as long as half of the lane's are free for
/// others. Further copies are lost, so that nobody waits for a slow member.
void Switch::copy_to_group(Port& in, const RxFlit& flit, const CellHead& head) noexcept {
  const CheckedFlit checked{flit, &head, flits_per_cell_ == 1};
  const VlBuffer& buffer = *in.buffers[flit.vl.value()];
  bool held = false;
  uint64_t copies = 0;
  if (taps_.active()) [[unlikely]]
    taps_.sent(in.number, flit, head);
  for (Port* out : attached_) {
    if (!copies_go(in, *out, head)) continue;
    ++copies;
    if (copy_is_struck(in, *out, flit.vl, head)) [[unlikely]] {
      in.counters.add(SwitchPortCounter::kDropFault);
    } else if (!in.multicast_rate.take(now_)) {
      in.counters.add(SwitchPortCounter::kDropMulticastRate);
    } else if (check_output(in, flit.vl, out->number) != kAdmitted) {
      in.counters.add(SwitchPortCounter::kDropMulticast);
    } else if (pass_through(in, *out, checked)) {
      if (taps_.active()) [[unlikely]]
        taps_.received(out->number, flit, head);
    } else if (held || buffer.free_flits() * 2 <= buffer.capacity()) {
      in.counters.add(SwitchPortCounter::kDropMulticast);
    } else {
      if (taps_.active()) [[unlikely]]
        taps_.received(out->number, flit, head);
      enqueue(in, *out, checked);
      held = true;
    }
  }
  if (!held) in.link->grant(flit.vl, 1);
  if (copies == 0) return in.counters.add(SwitchPortCounter::kDropNoRoute);
  in.counters.add(SwitchPortCounter::kCellsCopied, copies - 1);
}

/// Does `out` get a copy of a multicast cell that came in by `in`? Between switches a cell is taken only from
/// where the route to its source leads, so that none goes in a circle or comes twice.
bool Switch::copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept {
  if (&out == &in || !out.up || head.vl().value() >= out.lanes) return false;
  return in.peer_is_endnode || leads_back(in, out.number, head.slid());
}

/// Every check a cell meets at the port it enters by. Clauses: SAN-SW-01, SAN-VL-02, decisions section 4.
SwitchPortCounter Switch::admit(Port& in, VirtualLane vl, const CellHead& head, PortNumber& output) noexcept {
  const Lid dlid = head.dlid();
  if (head.version() != kCellVersion) return SwitchPortCounter::kDropVersion;
  if (!head.prefixes_fit() || dlid == kLidNone || dlid.value() > kLidMax)
    return SwitchPortCounter::kDropAddress;
  if (head.vl() != vl) return SwitchPortCounter::kDropLaneMismatch;
  if ((in.peer_is_endnode && head.slid() != in.lid) || head.source_subnet() != config_.subnet)
    return SwitchPortCounter::kDropForeignSource;
  if (head.dest_subnet() != config_.subnet) return SwitchPortCounter::kDropForeignSubnet;
  output = forwarding_.find(in.number, dlid);
  const SwitchPortCounter refused = check_output(in, vl, output);
  if (refused != kAdmitted) return refused;
  if (!in.peer_is_endnode && !leads_back(in, output, head.slid())) return SwitchPortCounter::kDropReversePath;
  return check_rates(in, vl, head.dest_qpn());
}

/// Would an answer that enters by `output` leave by `in`? Links form a tree, so an honest neighbour's cells
/// come from LIDs behind it.
bool Switch::leads_back(const Port& in, PortNumber output, Lid slid) const noexcept {
  return forwarding_.find(output, slid) == in.number;
}

SwitchPortCounter Switch::check_output(const Port& in, VirtualLane vl, PortNumber output) noexcept {
  if (output >= ports_.size()) return SwitchPortCounter::kDropNoRoute;
  Port& out = *ports_[output];
  if (!out.up) return SwitchPortCounter::kDropPortDown;
  if (vl != kVlManagement && vl.value() >= out.lanes) return SwitchPortCounter::kDropNoLane;
  if (&out == &in && !in.peer_is_endnode) return SwitchPortCounter::kDropLoop;
  if ((out.stalled_lanes & lane_bit(vl)) != 0) [[unlikely]]
    return check_stalled(in, out, vl);
  return kAdmitted;
}

/// A cell for an output that stood still when it was last looked at.
SwitchPortCounter Switch::check_stalled(const Port& in, Port& out, VirtualLane vl) noexcept {
  if (can_send(out, vl)) {
    out.stalled_lanes &= ~lane_bit(vl);
    out.expired_lanes &= ~lane_bit(vl);
    return kAdmitted;
  }
  if ((out.expired_lanes & lane_bit(vl)) != 0) return SwitchPortCounter::kDropLifetime;
  return crowded(in, vl, flits_per_cell_) ? SwitchPortCounter::kDropStandstill : kAdmitted;
}

SwitchPortCounter Switch::check_rates(Port& in, VirtualLane vl, Qpn dest_qpn) noexcept {
  if (vl == kVlManagement) {
    const bool fits = in.buffers[vl.value()]->free_flits() >= flits_per_cell_;
    if (!fits) return SwitchPortCounter::kDropManagementFull;
    return in.management_rate.take(now_) ? kAdmitted : SwitchPortCounter::kDropManagementRate;
  }
  if (dest_qpn != kQpnGsi || in.gsi_rate.take(now_)) return kAdmitted;
  return SwitchPortCounter::kDropGsiRate;
}

/// Ring to ring: only when nothing waits for this output, so that order and arbitration hold.
bool Switch::pass_through(Port& in, Port& out, const CheckedFlit& checked) noexcept {
  const RxFlit& flit = checked.flit;
  if (((out.waiting_lanes | out.poison_lanes) != 0) || !lane_is_free(out, flit.vl, in.number)) return false;
  if (!(flit.head && flit.tail) && !config_.link.cut_through) return false;
  std::byte* to = out.link->claim(flit.vl);
  if (to == nullptr) return false;
  checked.copy_to(to);
  const int flags =
      (flit.head ? kFlitHead : 0) | (flit.tail ? kFlitTail : 0) | (flit.poison ? kFlitPoison : 0);
  note_sent(
      in, out,
      {flit.vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  out.counters.add(SwitchPortCounter::kFlitsPassed);
  return true;
}

void Switch::enqueue(Port& in, Port& out, const CheckedFlit& checked) noexcept {
  const RxFlit& flit = checked.flit;
  if (!in.buffers[flit.vl.value()]->push(out.number, checked)) [[unlikely]] {
    // Not behind a link engine, which refuses flits without credit; on lane 15 the head found room for a
    // cell.
    in.link->grant(flit.vl, drop_from(in, out, flit.vl, SwitchPortCounter::kDropTooLong));
    return;
  }
  Egress& lane = out.egress[flit.vl.value()];
  if (lane.flits++ == 0) lane.progress_at = now_;
  out.waiting_lanes |= lane_bit(flit.vl);
  waiting_.insert(out.number);
  if (!awake_.contains(out.number)) [[unlikely]]
    wake(out);  // it looks for room, and asks its peer for credit
  update_ready(in, out, flit.vl);
}

}  // namespace weft::fabric
