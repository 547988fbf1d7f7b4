// adapter/path.h -- where the cells of a QP leave: the ports of an adapter, and what of a cell's header stays
// the same as long as neither the port nor the peer changes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"
#include "messages/global_header.h"

namespace weft::adapter {

/// One physical port and what the adapter last knew of it.
struct EnginePort {
  fabric::CellPort* carrier = nullptr;
  std::unique_ptr<fabric::CellPort> loopback;  // to QPs of this port (SAN-QP-03)
  uint8_t number = 0;                          // 1, 2, ...
  fabric::CellPortInfo info{};
  bool up = false;
  bool known = false;    // was up once: info is valid
  bool expired = false;  // QPs on it have been failed
  uint64_t incarnation = 0;
  uint32_t generation = 0;  // steps each time it comes up
  Instant down_since{};
  std::array<uint16_t, kPkeysPerPort> pkeys{kPkeyDefault};  // partitions; 0: no entry

  /// Another number each time that its QPs have to be told of something: it came up, or has expired.
  [[nodiscard]] uint32_t change() const noexcept { return generation * 2 + (expired ? 1 : 0); }
};

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
[[nodiscard]] QpPath make_path(const EnginePort& port, const QpAttr& attr, Qpn source,
                               uint32_t packet_bytes) noexcept;

/// Header template for a destination; used at bring-up and per datagram.
[[nodiscard]] CellTemplate make_template(const fabric::CellPortInfo& info, Lid dlid, Qpn dest, Qpn source,
                                         ServiceLevel sl, VirtualLane vl,
                                         uint16_t pkey = kPkeyDefault) noexcept;
/// The lane of a service level: data lanes in turn (decisions 1.15).
[[nodiscard]] VirtualLane lane_of(const fabric::CellPortInfo& info, ServiceLevel sl) noexcept;

}  // namespace weft::adapter
