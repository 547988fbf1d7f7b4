#include "adapter/path.h"

#include <algorithm>

namespace weft::adapter {

VirtualLane lane_of(const fabric::CellPortInfo& info, ServiceLevel sl) noexcept {
  const uint32_t lanes = std::clamp(info.lanes, 1U, uint32_t{kVlCount} - 1);
  return VirtualLane(static_cast<uint8_t>(sl.value() % lanes));
}

CellTemplate make_template(const fabric::CellPortInfo& info, Lid dlid, Qpn dest, Qpn source, ServiceLevel sl,
                           VirtualLane vl, uint16_t pkey) noexcept {
  return make_cell_template({.dest_subnet = info.subnet,
                             .src_subnet = info.subnet,
                             .dlid = dlid,
                             .slid = info.lid,
                             .vl = vl,
                             .sl = sl,
                             .dest_qpn = dest,
                             .src_qpn = source,
                             .pkey = pkey});
}

QpPath make_path(const EnginePort& port, const QpAttr& attr, Qpn source, uint32_t packet_bytes) noexcept {
  const fabric::CellPortInfo& info = port.info;
  QpPath path;
  path.vl = lane_of(info, attr.sl);
  path.loops = attr.dlid == info.lid;
  path.carrier = path.loops ? port.loopback.get() : port.carrier;
  const uint16_t pkey = port.pkeys[attr.pkey_index % kPkeysPerPort];
  path.fixed = make_template(info, attr.dlid, attr.dest_qpn, source, attr.sl, path.vl, pkey);
  path.is_global = attr.dgid != Gid{} && subnet_of(attr.dgid) != info.subnet;
  if (path.is_global) path.global = make_global_header(make_gid(info.subnet, info.guid), attr.dgid);
  path.segment_bytes = info.cell_payload_bytes;
  path.generation = port.generation;
  path.flags2 = attr.path_mig_state == PathMigState::kMigrated ? uint8_t{0} : uint8_t{kCell2MayMigrate};
  uint32_t bytes = path.segment_bytes * kCellsPerPacketMax;
  for (const uint32_t wanted : {packet_bytes, attr.path_mtu_bytes}) {
    if (wanted != 0) bytes = std::min(bytes, wanted);
  }
  // Whole cells; a packet shorter than a cell is one short cell.
  path.packet_bytes = bytes < path.segment_bytes ? bytes : bytes / path.segment_bytes * path.segment_bytes;
  return path;
}

}  // namespace weft::adapter
