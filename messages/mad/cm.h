// messages/mad/cm.h -- InfiniBand's connection management (class 7, version 2; volume 1 chapter 12): messages
// that connect queue pairs (REQ, MRA, REJ, REP, RTU, DREQ, DREP) and messages that find datagram services
// (SIDR_REQ, SIDR_REP). docs/management.md. Numbers stay raw. Fields of InfiniBand that these types lack are
// zero.
#pragma once

#include <variant>

#include "messages/global_header.h"
#include "messages/mad/mad.h"

namespace weft {

inline constexpr uint8_t kCmClassVersion = 2;

enum class CmAttribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
};
[[nodiscard]] std::string_view to_string(CmAttribute attribute) noexcept;

// ---- values of fields --------------------

/// CmReq::service.
inline constexpr uint8_t kCmServiceRc = 0;
inline constexpr uint8_t kCmServiceUc = 1;
/// Reasons of a REJ.
inline constexpr uint16_t kRejectNoResources = 3;
inline constexpr uint16_t kRejectTimeout = 4;
inline constexpr uint16_t kRejectInvalidId = 6;
inline constexpr uint16_t kRejectInvalidService = 8;
inline constexpr uint16_t kRejectStaleConnection = 10;
inline constexpr uint16_t kRejectConsumer = 28;
/// The message that a REJ or MRA refers to.
inline constexpr uint8_t kAboutReq = 0;
inline constexpr uint8_t kAboutRep = 1;
inline constexpr uint8_t kAboutNone = 2;  // REJ only
/// Status of a SIDR_REP.
inline constexpr uint8_t kSidrValid = 0;
inline constexpr uint8_t kSidrNoService = 1;
inline constexpr uint8_t kSidrRefused = 2;

// ---- messages --------------------

/// A REQ's primary path, as its sender sees it.
struct CmPath {
  uint16_t local_lid = 0;
  uint16_t remote_lid = 0;
  Gid local_gid{};
  Gid remote_gid{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t rate = 0;         // 6 bits
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t sl = 0;            // 4 bits
  uint8_t subnet_local = 0;  // 1 bit
  uint8_t ack_timeout = 0;   // 5 bits, 4.096 us * 2^n
  friend bool operator==(const CmPath&, const CmPath&) = default;
};

template <size_t kBytes>
using CmPrivateData = std::array<std::byte, kBytes>;

struct CmReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kReq;
  uint32_t local_id = 0;  // the sender's number of the connection
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;  // of the sender, 24 bits
  uint32_t psn = 0;  // first PSN of the sender, 24 bits
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t service = kCmServiceRc;
  uint8_t flow_control = 0;
  uint8_t retry_count = 0;  // 3 bits
  uint8_t rnr_retry = 0;    // 3 bits
  uint8_t srq = 0;
  uint8_t local_response_timeout = 0;   // how long the sender may take to answer, 4.096 us * 2^n
  uint8_t remote_response_timeout = 0;  // how long the receiver may take to answer, 4.096 us * 2^n
  uint8_t max_retries = 0;              // 4 bits
  uint16_t pkey = 0;
  uint8_t path_mtu = 0;  // enum ibv_mtu
  CmPath path{};
  CmPrivateData<92> private_data{};
  friend bool operator==(const CmReq&, const CmReq&) = default;
};

/// The receiver of a REQ or REP asks its sender to wait.
struct CmMra {
  static constexpr CmAttribute kAttribute = CmAttribute::kMra;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;  // the receiver's number of the connection; also in all following messages
  uint8_t about = kAboutReq;
  uint8_t service_timeout = 0;  // 4.096 us * 2^n
  CmPrivateData<222> private_data{};
  friend bool operator==(const CmMra&, const CmMra&) = default;
};

struct CmRej {
  static constexpr CmAttribute kAttribute = CmAttribute::kRej;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint8_t about = kAboutReq;
  uint16_t reason = 0;
  CmPrivateData<148> private_data{};
  friend bool operator==(const CmRej&, const CmRej&) = default;
};

struct CmRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kRep;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qkey = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t flow_control = 0;
  uint8_t rnr_retry = 0;
  uint8_t srq = 0;
  uint8_t ack_delay = 0;  // 5 bits
  CmPrivateData<196> private_data{};
  friend bool operator==(const CmRep&, const CmRep&) = default;
};

struct CmRtu {
  static constexpr CmAttribute kAttribute = CmAttribute::kRtu;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  CmPrivateData<224> private_data{};
  friend bool operator==(const CmRtu&, const CmRtu&) = default;
};

struct CmDreq {
  static constexpr CmAttribute kAttribute = CmAttribute::kDreq;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  uint32_t qpn = 0;  // of the receiver
  CmPrivateData<220> private_data{};
  friend bool operator==(const CmDreq&, const CmDreq&) = default;
};

struct CmDrep {
  static constexpr CmAttribute kAttribute = CmAttribute::kDrep;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  CmPrivateData<224> private_data{};
  friend bool operator==(const CmDrep&, const CmDrep&) = default;
};

struct CmSidrReq {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrReq;
  uint32_t request_id = 0;
  uint16_t pkey = 0;
  uint64_t service_id = 0;
  CmPrivateData<216> private_data{};
  friend bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

struct CmSidrRep {
  static constexpr CmAttribute kAttribute = CmAttribute::kSidrRep;
  uint32_t request_id = 0;
  uint8_t status = kSidrValid;
  uint32_t qpn = 0;
  uint64_t service_id = 0;
  uint32_t qkey = 0;
  CmPrivateData<136> private_data{};
  friend bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

/// A message, or none.
using CmBody =
    std::variant<std::monostate, CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep>;

struct CmMad {
  uint64_t transaction = 0;
  CmBody body{};
  friend bool operator==(const CmMad&, const CmMad&) = default;
};

/// `mad.body` must hold a message.
[[nodiscard]] MadBytes encode_cm(const CmMad& mad) noexcept;
/// Reads one message; `out` is set only on kNone.
[[nodiscard]] MadError decode_cm(std::span<const std::byte> in, CmMad& out) noexcept;

}  // namespace weft
