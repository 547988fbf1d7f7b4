#include "adapter/path.h"

#include <algorithm>

namespace weft::adapter {

CellTemplate make_template(const AdapterPort& port, const CellEnds& ends) noexcept {
  return make_cell_template({.dest_subnet = port.info().subnet,
                             .src_subnet = port.info().subnet,
                             .dlid = ends.dlid,
                             .slid = port.lid(),
                             .vl = lane_of(port, ends.source, ends.sl),
                             .sl = ends.sl,
                             .dest_qpn = ends.dest,
                             .src_qpn = ends.source,
                             .pkey = ends.pkey});
}

QpPath make_path(const AdapterPort& port, const QpAttr& attr, Qpn source, uint32_t packet_bytes) noexcept {
  const fabric::CellPortInfo& info = port.info();
  QpPath path;
  path.vl = lane_of(port, source, attr.sl);
  path.loops = port.has(attr.dlid);
  path.carrier = &port.way_to(attr.dlid);
  const uint16_t pkey = port.pkeys()[attr.pkey_index % kPkeysPerPort];
  path.fixed = make_template(port, {attr.dlid, attr.dest_qpn, source, attr.sl, pkey});
  path.is_global = attr.dgid != Gid{} && subnet_of(attr.dgid) != info.subnet;
  if (path.is_global) path.global = make_global_header(make_gid(info.subnet, info.guid), attr.dgid);
  path.segment_bytes = info.cell_payload_bytes;
  path.generation = port.generation();
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
