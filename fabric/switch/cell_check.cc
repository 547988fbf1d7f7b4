#include "fabric/switch/cell_check.h"

#include "messages/multicast.h"

namespace weft::fabric {

/// Clauses: SAN-SW-01, SAN-VL-02, decisions section 4.
SwitchPortCounter CellCheck::check_head(const Port& in, VirtualLane vl, const CellHead& head) const noexcept {
  const Lid dlid = head.dlid();
  if (head.version() != kCellVersion) return SwitchPortCounter::kDropVersion;
  if (!head.prefixes_fit() || dlid == kLidNone || dlid.value() > kLidMax)
    return SwitchPortCounter::kDropAddress;
  if (head.vl() != vl) return SwitchPortCounter::kDropLaneMismatch;
  if ((in.peer_is_endnode && head.slid() != in.lid) || head.source_subnet() != config_.subnet)
    return SwitchPortCounter::kDropForeignSource;
  return head.dest_subnet() == config_.subnet ? kAdmitted : SwitchPortCounter::kDropForeignSubnet;
}

SwitchPortCounter CellCheck::admit(Port& in, VirtualLane vl, const CellHead& head,
                                   PortNumber& output) noexcept {
  const SwitchPortCounter bad = check_head(in, vl, head);
  if (bad != kAdmitted) return bad;
  output = forwarding_.find(in.number, head.dlid());
  const SwitchPortCounter refused = check_output(in, vl, output, &head);
  if (refused != kAdmitted) [[unlikely]]
    return output == kPortGroup ? check_group(in, head.dlid()) : refused;
  if (!in.peer_is_endnode && !leads_back(in, output, head.slid())) return SwitchPortCounter::kDropReversePath;
  return check_rates(in, vl, head.dest_qpn());
}

Port* CellCheck::plain_output(const Port& in, VirtualLane vl, const CellHead& head) const noexcept {
  if (vl == kVlManagement || head.dest_qpn() == kQpnGsi || check_head(in, vl, head) != kAdmitted)
    return nullptr;
  const PortNumber output = forwarding_.find(in.number, head.dlid());
  if (output >= ports_.all.size()) return nullptr;
  Port& out = ports_[output];
  if (check_lane(in, out, vl) != kAdmitted || (out.stalled_lanes & lane_bit(vl)) != 0) return nullptr;
  return in.peer_is_endnode || leads_back(in, output, head.slid()) ? &out : nullptr;
}

/// True when an answer that enters by `output` would leave by `in`. Links form a tree, so an honest
/// neighbour's cells come from LIDs behind it.
bool CellCheck::leads_back(const Port& in, PortNumber output, Lid slid) const noexcept {
  return forwarding_.find(output, slid) == in.number;
}

SwitchPortCounter CellCheck::check_output(Port& in, VirtualLane vl, PortNumber output,
                                          const CellHead* head) noexcept {
  if (output >= ports_.all.size()) return SwitchPortCounter::kDropNoRoute;
  Port& out = ports_[output];
  const SwitchPortCounter bad = check_lane(in, out, vl);
  if (bad == kAdmitted && (out.stalled_lanes & lane_bit(vl)) != 0) [[unlikely]]
    return standstill_.check(in, out, vl, head);
  return bad;
}

SwitchPortCounter CellCheck::check_lane(const Port& in, const Port& out, VirtualLane vl) noexcept {
  if (!out.up) return SwitchPortCounter::kDropPortDown;
  if (vl != kVlManagement && vl.value() >= out.lanes) return SwitchPortCounter::kDropNoLane;
  if (&out == &in && !in.peer_is_endnode) return SwitchPortCounter::kDropLoop;
  return kAdmitted;
}

SwitchPortCounter CellCheck::check_rates(Port& in, VirtualLane vl, Qpn dest_qpn) noexcept {
  if (vl == kVlManagement) {
    const bool fits = in.buffers[vl.value()]->free_flits() >= flits_per_cell_;
    if (!fits) return SwitchPortCounter::kDropManagementFull;
    return in.management_rate.take(ports_.now) ? kAdmitted : SwitchPortCounter::kDropManagementRate;
  }
  if (dest_qpn != kQpnGsi || in.gsi_rate.take(ports_.now)) return kAdmitted;
  return SwitchPortCounter::kDropGsiRate;
}

/// A datagram to the group of all endnodes goes to QP1 of each of them. It costs its sender the rate of one
/// datagram to QP1. A cell from another switch has paid there.
SwitchPortCounter CellCheck::check_group(Port& in, Lid group) noexcept {
  const bool paid = group != kLidEverybody || !in.peer_is_endnode || in.gsi_rate.take(ports_.now);
  return paid ? kToGroup : SwitchPortCounter::kDropGsiRate;
}

/// True when `out` gets a copy. Between switches a cell is taken only from the port that leads to its source,
/// so that no cell goes in a circle or arrives twice.
bool CellCheck::copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept {
  if (&out == &in || !out.up || head.vl().value() >= out.lanes) return false;
  return in.peer_is_endnode || leads_back(in, out.number, head.slid());
}

}  // namespace weft::fabric
