// adapter/path.h -- where the cells of a QP leave, and what of a cell's header stays
// the same as long as neither the port nor the peer changes.
#pragma once

#include <cstdint>

#include "adapter/port.h"
#include "adapter/verbs.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"
#include "messages/global_header.h"

namespace weft::adapter {

/// Where cells of a QP leave, and the header words that stay the same. Renewed when the port comes up.
struct QpPath {
  fabric::CellPort* carrier = nullptr;
  bool loops = false;  // to this port itself: needs no link
  CellTemplate fixed{};
  VirtualLane vl{};
  uint32_t segment_bytes = 0;
  uint32_t packet_bytes = 0;
  uint32_t generation = 0;  // of the port it was made for; 0 = to be made
  uint8_t flags2 = 0;       // CellFlag2 of every cell
  bool is_global = false;   // the peer is in another subnet: `global` follows the MAC header (SAN-FRAME-03)
  GlobalHeaderWire global{};

  [[nodiscard]] const GlobalHeaderWire* global_header() const noexcept {
    return is_global ? &global : nullptr;
  }
};

/// The path of a QP whose number is `source`, with `attr`, over a known port. `packet_bytes` 0: no wish.
[[nodiscard]] QpPath make_path(const AdapterPort& port, const QpAttr& attr, Qpn source,
                               uint32_t packet_bytes) noexcept;

/// From which QP a cell comes, and where it goes.
struct CellEnds {
  Lid dlid{};
  Qpn dest{};
  Qpn source{};
  ServiceLevel sl{};
  uint16_t pkey = kPkeyDefault;
};
/// Header template for cells that leave by a known port; used at bring-up and per datagram.
[[nodiscard]] CellTemplate make_template(const AdapterPort& port, const CellEnds& ends) noexcept;

}  // namespace weft::adapter
