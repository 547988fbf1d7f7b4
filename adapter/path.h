// adapter/path.h -- the carrier by which the cells of a QP leave, and the parts of a cell's header that
// change only with the port or the peer.
#pragma once

#include <cstdint>

#include "adapter/port.h"
#include "adapter/verbs.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"
#include "messages/global_header.h"

namespace weft::adapter {

/// Carrier and constant header words of a QP's cells. Made anew when the port has changed.
struct QpPath {
  fabric::CellPort* carrier = nullptr;
  bool loops = false;  // to this port itself: needs no link
  CellTemplate fixed{};
  VirtualLane vl{};
  uint32_t segment_bytes = 0;
  uint32_t packet_bytes = 0;
  uint32_t generation = 0;  // of the port for which it was made; 0: must be made
  uint8_t flags2 = 0;       // CellFlag2 of every cell
  bool is_global = false;   // the peer is in another subnet: `global` follows the MAC header (SAN-FRAME-03)
  GlobalHeaderWire global{};

  [[nodiscard]] const GlobalHeaderWire* global_header() const noexcept {
    return is_global ? &global : nullptr;
  }
};

/// The path of the QP with number `source` and attributes `attr`, over a known port. `packet_bytes` 0: no
/// limit.
[[nodiscard]] QpPath make_path(const AdapterPort& port, const QpAttr& attr, Qpn source,
                               uint32_t packet_bytes) noexcept;

/// The lane by which the QP with number `source` sends at this service level: datagrams of subnet management
/// have lane 15 for themselves.
[[nodiscard]] inline VirtualLane lane_of(const AdapterPort& port, Qpn source, ServiceLevel sl) noexcept {
  return source == kQpnSmi ? kVlManagement : port.lane_of(sl);
}

/// Source QP and destination of a cell.
struct CellEnds {
  Lid dlid{};
  Qpn dest{};
  Qpn source{};
  ServiceLevel sl{};
  uint16_t pkey = kPkeyDefault;
};
/// Header template of cells that leave by a known port; made at bring-up and per datagram.
[[nodiscard]] CellTemplate make_template(const AdapterPort& port, const CellEnds& ends) noexcept;

}  // namespace weft::adapter
