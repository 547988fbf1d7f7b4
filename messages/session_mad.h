// messages/session_mad.h -- how a session of the split driver opens and ends: by messages of InfiniBand's
// connection management (messages/mad/cm.h). Their private data hold what a session needs besides one queue
// pair. One exchange REQ, REP, RTU connects both pairs of QPs. REJ refuses with a reason. DREQ and DREP end
// the session (decisions 2.14).
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
// The transaction of all these messages is the session's nonce. The host chooses it, and only the two sides
// know it. A message whose nonce or source LID does not match belongs to no session and is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/net/frame_port.h"
#include "messages/ids.h"
#include "messages/mad/cm.h"
#include "messages/netdev.h"

namespace weft {

/// Service id of a unit, from the range for operating systems: "WEFT".
inline constexpr uint64_t kSessionServiceId = 0x0200'0000'5745'4654;

/// How the acknowledged channels of a session acknowledge (C-14, SAN-XPORT-07).
enum class AckPolicy : uint8_t {
  kSelective = 0,  // one ACK for several cells, with the gaps
  kStrict = 1,     // one ACK per cell
};
[[nodiscard]] std::string_view to_string(AckPolicy policy) noexcept;

/// One QP of the sender.
struct SessionQueuePair {
  Qpn qpn;
  Psn psn;  // of the first packet that the sender will send
  friend bool operator==(const SessionQueuePair&, const SessionQueuePair&) = default;
};

/// Content of REQ and REP: the sender's side of the session. Numbers stay raw; the receiver decides which
/// values it knows.
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
  uint32_t packet_bytes = 0;   // longest packet that the sender accepts; 0: no limit named
  uint32_t message_bytes = 0;  // longest message that the sender accepts on channel 0
  friend bool operator==(const SessionOffer&, const SessionOffer&) = default;
};

/// Names of the session in both sides' connection managers, and the path in a REQ. They serve other
/// implementations and tools; here a session is found by nonce and LID.
struct SessionLabels {
  uint32_t local_id = 0;   // the sender's number of the session
  uint32_t remote_id = 0;  // the receiver's number; zero in a REQ
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
  uint16_t version_min = 0;  // REJ: versions of the sender
  uint16_t version_max = 0;
  SessionLabels labels{};
  friend bool operator==(const SessionMad&, const SessionMad&) = default;
};

[[nodiscard]] MadBytes encode_session_mad(const SessionMad& mad) noexcept;
/// Reads a message of connection management as one of a session. `out` is set only on kNone. kKind: the
/// message belongs to no session, for example a REQ for another service or a message that sessions do not
/// use.
[[nodiscard]] MadError read_session_mad(const CmMad& mad, SessionMad& out) noexcept;
[[nodiscard]] MadError decode_session_mad(std::span<const std::byte> in, SessionMad& out) noexcept;

}  // namespace weft
