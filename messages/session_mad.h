// messages/session_mad.h -- how a session of the split driver opens and ends: messages of InfiniBand's
// connection management (messages/mad/cm.h), whose private data carry what a session needs beside one queue
// pair. One exchange REQ, REP, RTU sets up both QP pairs; REJ says why not; DREQ, DREP end it (decisions
// 2.14).
//
//   REQ, REP:  QPN and first PSN of channel 0 in InfiniBand's fields, the offer in the private data:
//              0 lowest driver protocol 16   2 highest 16 (REP: the chosen one in both)
//              4 encoding 8   5 mode 8   6 idata format 8   7 channels 8   8 QPN of channel 1 32   12 PSN 32
//              16 largest frame 32   20 features 32   24 MAC address 48   30 acknowledgement 8   31 zero 8
//              32 packet bytes 32   36 message bytes 32   40 zero
//   REJ:       reason 28 (the consumer's); private data:
//              0 refusal 16   2 lowest version 16   4 highest 16   6 zero
//   RTU, DREQ, DREP: no private data
//
// The transaction of all of them is the session's nonce, which the host chooses and only the two know: a
// message whose nonce or source LID does not fit belongs to no session and is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/frame_port.h"
#include "messages/ids.h"
#include "messages/mad/cm.h"
#include "messages/netdev.h"

namespace weft {

/// The service that a unit offers: of those that an operating system may define, "WEFT".
inline constexpr uint64_t kSessionServiceId = 0x0200'0000'5745'4654;

/// How the acknowledged channels of a session answer (C-14, SAN-XPORT-07).
enum class AckPolicy : uint8_t {
  kSelective = 0,  // one frame for several cells, with the gaps
  kStrict = 1,     // a frame for each cell
};
[[nodiscard]] std::string_view to_string(AckPolicy policy) noexcept;

/// One QP of the sender.
struct SessionQueuePair {
  Qpn qpn;
  Psn psn;  // of the first packet the sender will send
  friend bool operator==(const SessionQueuePair&, const SessionQueuePair&) = default;
};

/// What REQ and REP carry: the sender's side of the session. The numbers stay raw, the receiver decides what
/// it knows.
struct SessionOffer {
  uint16_t version_min = kNetdevVersion;
  uint16_t version_max = kNetdevVersion;
  uint8_t encoding = 0;      // MessageEncoding
  uint8_t mode = 0;          // TransferMode
  uint8_t idata_format = 0;  // IdataFormat
  uint8_t channels = 0;      // 1 or 2
  SessionQueuePair control{};
  SessionQueuePair data{};       // zero with one channel
  uint32_t frame_bytes_max = 0;  // Ethernet frame, without vnet header
  uint32_t features = 0;         // Offload bits
  MacAddress mac{};
  uint8_t acks = 0;            // AckPolicy
  uint32_t packet_bytes = 0;   // longest packet the sender takes; 0 = no wish
  uint32_t message_bytes = 0;  // longest message the sender takes on channel 0
  friend bool operator==(const SessionOffer&, const SessionOffer&) = default;
};

/// What both sides' connection managers call the session, and how a REQ describes the path: for other
/// implementations and for tools. A session is found by nonce and LID.
struct SessionLabels {
  uint32_t local_id = 0;   // the sender's number of it
  uint32_t remote_id = 0;  // the receiver's; zero in a REQ
  Lid local_lid{};         // REQ
  Lid remote_lid{};        // REQ
  Guid guid{};             // REQ, REP: of the sender's adapter
  Qpn remote_qpn{};        // DREQ: of the receiver's channel 0
  friend bool operator==(const SessionLabels&, const SessionLabels&) = default;
};

/// One message of a session.
struct SessionMad {
  CmAttribute kind = CmAttribute::kReq;  // REQ, REP, RTU, REJ, DREQ or DREP
  uint64_t nonce = 0;
  SessionOffer offer{};      // REQ, REP
  uint16_t reason = 0;       // REJ: SessionRefusal
  uint16_t version_min = 0;  // REJ: what the sender speaks
  uint16_t version_max = 0;
  SessionLabels labels{};
  friend bool operator==(const SessionMad&, const SessionMad&) = default;
};

[[nodiscard]] MadBytes encode_session_mad(const SessionMad& mad) noexcept;
/// Reads a message of connection management as one of a session; `out` is set only on kNone. kKind: it is no
/// session's, as a REQ for another service or a message that sessions do not use.
[[nodiscard]] MadError read_session_mad(const CmMad& mad, SessionMad& out) noexcept;
[[nodiscard]] MadError decode_session_mad(std::span<const std::byte> in, SessionMad& out) noexcept;

}  // namespace weft
