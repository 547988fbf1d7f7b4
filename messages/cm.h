// messages/cm.h -- datagrams that open and end a session: connection management on QP1 (decisions 2.14,
// C-06). One exchange REQ, REP, RTU sets up both QP pairs; REJ says why not; DREQ, DREP end it. Each is one
// UD Send of one cell.
//
//   every message:  0 kind 16   2 version 16   4 zero 32   8 session nonce 64
//   REQ, REP:      16 driver protocol: lowest version 16   18 highest 16 (REP: the chosen one in both)
//                  20 encoding 8   21 mode 8   22 idata format 8   23 channels 8
//                  24 channel 0: QPN 32   28 first PSN 32   32 channel 1: QPN 32   36 first PSN 32
//                  40 largest frame 32   44 features 32   48 MAC address 48   54 zero 16
//                  56 packet bytes 32   60 message bytes 32   64 zero 128
//   REJ:           16 reason 16   18 lowest version 16   20 highest version 16   22 zero 16
//
// Kinds are InfiniBand's attribute numbers of the same messages. The nonce is chosen by the host and names
// the session: a message whose nonce or source LID does not fit belongs to no session and is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/frame_port.h"
#include "messages/ids.h"
#include "messages/netdev.h"

namespace weft {

inline constexpr uint16_t kCmVersion = 1;
/// Q_Key of QP1 (as InfiniBand has it).
inline constexpr uint32_t kQkeyGsi = 0x8001'0000;
/// What fits into a UD cell of the smallest payload with room for growth.
inline constexpr uint32_t kCmBytesMax = 232;

enum class CmKind : uint16_t {
  kReq = 0x10,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
};
[[nodiscard]] std::string_view to_string(CmKind kind) noexcept;

/// One QP of the sender.
struct CmChannel {
  Qpn qpn;
  Psn psn;  // of the first packet the sender will send
  friend bool operator==(const CmChannel&, const CmChannel&) = default;
};

/// What REQ and REP carry: the sender's side of the session. The numbers stay raw, the receiver decides what
/// it knows.
struct CmOffer {
  uint16_t version_min = kNetdevVersion;
  uint16_t version_max = kNetdevVersion;
  uint8_t encoding = 0;      // MessageEncoding
  uint8_t mode = 0;          // TransferMode
  uint8_t idata_format = 0;  // IdataFormat
  uint8_t channels = 0;      // 1 or 2
  CmChannel control;
  CmChannel data;                // zero with one channel
  uint32_t frame_bytes_max = 0;  // Ethernet frame, without vnet header
  uint32_t features = 0;         // Offload bits
  MacAddress mac{};
  uint32_t packet_bytes = 0;   // longest packet the sender takes; 0 = no wish
  uint32_t message_bytes = 0;  // longest message the sender takes on channel 0
  friend bool operator==(const CmOffer&, const CmOffer&) = default;
};

struct CmMessage {
  CmKind kind = CmKind::kReq;
  uint64_t nonce = 0;
  CmOffer offer;             // REQ, REP
  uint16_t reason = 0;       // REJ: SessionRefusal
  uint16_t version_min = 0;  // REJ: what the sender speaks
  uint16_t version_max = 0;
  friend bool operator==(const CmMessage&, const CmMessage&) = default;
};

enum class CmError : uint8_t { kNone, kTooShort, kVersion, kKind, kLength, kReserved, kBadValue, kCount };
[[nodiscard]] std::string_view to_string(CmError error) noexcept;

/// Writes the message to `out`, which has at least kCmBytesMax bytes; returns its bytes.
[[nodiscard]] size_t encode_cm(const CmMessage& message, std::span<std::byte> out) noexcept;
/// Reads one message. `out` is set only on kNone.
[[nodiscard]] CmError decode_cm(std::span<const std::byte> in, CmMessage& out) noexcept;

}  // namespace weft
