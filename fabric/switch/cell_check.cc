#include "fabric/switch/cell_check.h"

namespace weft::fabric {

/// Clauses: SAN-SW-01, SAN-VL-02, decisions section 4.
SwitchPortCounter CellCheck::admit(Port& in, VirtualLane vl, const CellHead& head,
                                   PortNumber& output) noexcept {
  const Lid dlid = head.dlid();
  if (head.version() != kCellVersion) return SwitchPortCounter::kDropVersion;
  if (!head.prefixes_fit() || dlid == kLidNone || dlid.value() > kLidMax)
    return SwitchPortCounter::kDropAddress;
  if (head.vl() != vl) return SwitchPortCounter::kDropLaneMismatch;
  if ((in.peer_is_endnode && head.slid() != in.lid) || head.source_subnet() != config_.subnet)
    return SwitchPortCounter::kDropForeignSource;
  if (head.dest_subnet() != config_.subnet) return SwitchPortCounter::kDropForeignSubnet;
  output = forwarding_.find(in.number, dlid);
  const SwitchPortCounter refused = check_output(in, vl, output, &head);
  if (refused != kAdmitted) [[unlikely]]
    return output == kPortGroup ? kToGroup : refused;
  if (!in.peer_is_endnode && !leads_back(in, output, head.slid())) return SwitchPortCounter::kDropReversePath;
  return check_rates(in, vl, head.dest_qpn());
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
  if (!out.up) return SwitchPortCounter::kDropPortDown;
  if (vl != kVlManagement && vl.value() >= out.lanes) return SwitchPortCounter::kDropNoLane;
  if (&out == &in && !in.peer_is_endnode) return SwitchPortCounter::kDropLoop;
  if ((out.stalled_lanes & lane_bit(vl)) != 0) [[unlikely]]
    return standstill_.check(in, out, vl, head);
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

/// True when `out` gets a copy. Between switches a cell is taken only from the port that leads to its source,
/// so that no cell goes in a circle or arrives twice.
bool CellCheck::copies_go(const Port& in, const Port& out, const CellHead& head) const noexcept {
  if (&out == &in || !out.up || head.vl().value() >= out.lanes) return false;
  return in.peer_is_endnode || leads_back(in, out.number, head.slid());
}

}  // namespace weft::fabric
