// How it works: the head flit of a cell decides -- header sane, source true, rate kept, route known, output
// there -- once, and the rest of the cell follows. A flit goes from ring to ring when its output has nothing
// waiting and credit at hand; otherwise it waits in the buffer its credit stands for, in the queue of its
// output. So the input ring is always drained, whatever an output does (decisions P4), and the credit goes
// back when the flit leaves.
#include <cstring>

#include "base/endian.h"
#include "fabric/switch/switch.h"
#include "messages/cell.h"

namespace weft::fabric {
namespace {

constexpr SwitchPortCounter kAdmitted = SwitchPortCounter::kCount;
constexpr size_t kDestQpnOffset = 16;

}  // namespace

int Switch::receive_flits(Port& in) noexcept {
  const std::span<const RxFlit> flits = in.link->receive();
  if (flits.empty()) return 0;
  for (const RxFlit& flit : flits) take_flit(in, flit);
  in.link->release();
  in.counters.add(SwitchPortCounter::kFlitsIn, flits.size());
  return static_cast<int>(flits.size());
}

void Switch::take_flit(Port& in, const RxFlit& flit) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  if (flit.head) {
    in.counters.add(SwitchPortCounter::kCellsIn);
    const SwitchPortCounter reason = admit(in, flit, cell.output);
    cell.flits = 0;
    cell.dropping = reason != kAdmitted;
    if (cell.dropping) [[unlikely]]
      in.counters.add(reason);
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
  if (pass_through(in, out, flit)) {
    in.link->grant(flit.vl, 1);
  } else {
    enqueue(in, out, flit);
  }
}

/// Every check a cell meets at the port it enters by. Clauses: SAN-SW-01, SAN-VL-02, decisions section 4.
SwitchPortCounter Switch::admit(Port& in, const RxFlit& head, PortNumber& output) noexcept {
  const std::byte* cell = head.payload.data();
  if (head.payload.size() < kCellHeaderBytes) return SwitchPortCounter::kDropTooShort;
  const auto destination = load_be<uint64_t>(cell);
  const auto source = load_be<uint64_t>(cell + 8);
  const Lid dlid(static_cast<uint16_t>(destination >> 16));
  const Lid slid(static_cast<uint16_t>(source >> 32));
  if (static_cast<uint8_t>(source >> 24) != kCellVersion) return SwitchPortCounter::kDropVersion;
  if ((destination >> 48) != kAddressPrefix || (destination & 0xFFFF) != kAddressPrefix || dlid == kLidNone ||
      dlid.value() > kLidMax) {
    return SwitchPortCounter::kDropAddress;
  }
  if ((source & 0x0F) != head.vl.value()) return SwitchPortCounter::kDropLaneMismatch;
  const SubnetId source_subnet(static_cast<uint16_t>(source >> 48));
  if ((in.peer_is_endnode && slid != in.lid) || source_subnet != config_.subnet)
    return SwitchPortCounter::kDropForeignSource;
  if (SubnetId(static_cast<uint16_t>(destination >> 32)) != config_.subnet)
    return SwitchPortCounter::kDropForeignSubnet;
  output = forwarding_.find(in.number, dlid);
  const SwitchPortCounter refused = check_output(in, head.vl, output);
  if (refused != kAdmitted) return refused;
  if (!in.peer_is_endnode && !leads_back(in, output, slid)) return SwitchPortCounter::kDropReversePath;
  return check_rates(in, head);
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
  if ((out.stalled_lanes & lane_bit(vl)) != 0) [[unlikely]] {
    if (out.link->credits(vl) == 0) return SwitchPortCounter::kDropLifetime;
    out.stalled_lanes &= ~lane_bit(vl);
  }
  return kAdmitted;
}

SwitchPortCounter Switch::check_rates(Port& in, const RxFlit& head) noexcept {
  if (head.vl == kVlManagement) {
    const bool fits = in.buffers[head.vl.value()]->free_flits() >= flits_per_cell_;
    if (!fits) return SwitchPortCounter::kDropManagementFull;
    return in.management_rate.take(now_) ? kAdmitted : SwitchPortCounter::kDropManagementRate;
  }
  const Qpn dest_qpn(load_be<uint32_t>(head.payload.data() + kDestQpnOffset));
  if (dest_qpn != kQpnGsi || in.gsi_rate.take(now_)) return kAdmitted;
  return SwitchPortCounter::kDropGsiRate;
}

/// Ring to ring: only when nothing waits for this output, so that order and arbitration hold.
bool Switch::pass_through(Port& in, Port& out, const RxFlit& flit) noexcept {
  if (((out.waiting_lanes | out.poison_lanes) != 0) || !lane_is_free(out, flit.vl, in.number)) return false;
  if (!(flit.head && flit.tail) && !config_.link.cut_through) return false;
  std::byte* to = out.link->claim(flit.vl);
  if (to == nullptr) return false;
  if (!flit.payload.empty()) std::memcpy(to, flit.payload.data(), flit.payload.size());
  const int flags =
      (flit.head ? kFlitHead : 0) | (flit.tail ? kFlitTail : 0) | (flit.poison ? kFlitPoison : 0);
  note_sent(
      in, out,
      {flit.vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  out.counters.add(SwitchPortCounter::kFlitsPassed);
  return true;
}

void Switch::enqueue(Port& in, Port& out, const RxFlit& flit) noexcept {
  if (!in.buffers[flit.vl.value()]->push(out.number, flit)) [[unlikely]] {
    // Not behind a link engine, which refuses flits without credit; on lane 15 the head found room for a
    // cell.
    in.link->grant(flit.vl, drop_from(in, out, flit.vl, SwitchPortCounter::kDropTooLong));
    return;
  }
  Egress& lane = out.egress[flit.vl.value()];
  if (lane.flits++ == 0) lane.progress_at = now_;
  out.waiting_lanes |= lane_bit(flit.vl);
  update_ready(in, out, flit.vl);
}

}  // namespace weft::fabric
