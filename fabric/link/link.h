// fabric/link/link.h -- types of a link: its state, the parameters its ends agreed on, and the flits that
// cross it. The link itself is LinkEngine (fabric/link/link_engine.h); a Carrier carries its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "messages/flit.h"
#include "messages/ids.h"
#include "messages/link_hello.h"

namespace weft::fabric {

enum class LinkState : uint8_t {
  kDown,    // no peer; poll() keeps trying
  kUp,      // params() is valid
  kFaulty,  // the peer broke the protocol; poll() resets it
};

[[nodiscard]] std::string_view to_string(LinkState state) noexcept;

/// Distance of a flit's 16-bit number on the wire from the 64-bit number `here`; negative: behind `here`.
[[nodiscard]] constexpr int flit_distance(uint16_t wire, uint64_t here) noexcept {
  return static_cast<int16_t>(static_cast<uint16_t>(wire - static_cast<uint16_t>(here)));
}

/// Parameters that both ends agreed on (decisions 2.8). Constant while the link is up.
struct LinkParams {
  Guid local_guid{};
  Guid peer_guid{};
  Lid lid{};  // of the endnode on this link; kLidNone between switches
  SubnetId subnet{};
  uint16_t switch_port = 0;
  uint32_t flit_payload_bytes = 0;
  uint32_t cell_payload_bytes = 0;
  uint32_t lanes = 0;  // data lanes
  uint32_t credits_per_lane = 0;
  bool whole_cell_flits = true;                             // flit_payload_bytes holds the largest cell
  std::array<uint16_t, kLinkPkeysMax> pkeys{kPkeyDefault};  // of the endnode's port; 0 behind the last one
};

/// A received flit. Header, sequence and CRC are checked; in whole-cell mode also the cell's CRC.
struct RxFlit {
  VirtualLane vl{};
  bool head = false;
  bool tail = false;
  bool poison = false;
  uint32_t cell_crc = 0;                 // whole-cell links: the verified CRC of the cell
  std::span<const std::byte> payload{};  // in the carrier's memory; valid until release()
};

/// A flit to send. Its payload is in the memory that claim() returned.
struct TxFlit {
  VirtualLane vl{};
  uint8_t flags = 0;  // FlitFlag
  uint32_t payload_bytes = 0;
  uint32_t cell_crc = 0;  // whole-cell flits: CRC of the cell, so that the payload is hashed once (P1)
};

}  // namespace weft::fabric
