// messages/cm_mad.h -- the management datagrams by which programs of the verbs meet: InfiniBand's connection
// management (class 7, version 2: REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, laid out as its
// volume 1 chapter 12 has them), and our questions who has an IP address and which process is there (a
// vendor's class). Each is one UD Send of 256 bytes from QP1 to QP1 under kQkeyGsi. docs/rdma_cm.md.
//
//   0 base version 8 (1)   1 class 8   2 class version 8   3 method 8 (3 = Send)   4 status, zero 32
//   8 transaction 64      16 attribute 16   18 zero 16   20 zero 32   24 the message, 232 bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "messages/global_header.h"

namespace weft {

inline constexpr size_t kMadBytes = 256;
inline constexpr size_t kMadHeaderBytes = 24;
using MadBytes = std::array<std::byte, kMadBytes>;

/// InfiniBand's attribute numbers; the last four are of our own class.
enum class MadKind : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kWhoHas = 0x0101,
  kHas = 0x0102,
  kWhoIsThere = 0x0103,
  kIsThere = 0x0104,
};
[[nodiscard]] std::string_view to_string(MadKind kind) noexcept;

/// A REQ's primary path, as its sender sees it.
struct MadPath {
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
  friend bool operator==(const MadPath&, const MadPath&) = default;
};

/// Who has this IP address, and who listens on this port of it.
struct MadAddress {
  uint64_t host = 0;   // of the asker: addresses like 127.0.0.1 mean something within one host only
  Gid ip{};            // an IPv4 address in its last four bytes, the others zero
  uint8_t family = 0;  // 4 or 6
  uint8_t owns = 0;    // answer: 1 the address, 2 somebody is bound to the port, 3 somebody listens there
  uint16_t port_space = 0;
  uint16_t port = 0;
  uint64_t guid = 0;  // of the answerer
  friend bool operator==(const MadAddress&, const MadAddress&) = default;
};

/// Which process an endnode is, so that others can tell that it has ended, or that another has its LID now.
struct MadProcess {
  uint64_t incarnation = 0;  // random; no two processes have the same
  uint64_t space = 0;    // of process numbers: the same for all that know it by the same one; 0: none does
  uint64_t started = 0;  // as the kernel tells it, which may give a number again
  uint32_t pid = 0;
  friend bool operator==(const MadProcess&, const MadProcess&) = default;
};

/// One message of any kind. Numbers stay raw; each kind carries what is said beside it, the rest is zero.
struct CmMad {
  MadKind kind = MadKind::kReq;
  uint64_t transaction = 0;
  uint32_t local_id = 0;                // all: the sender's connection; SIDR: the request
  uint32_t remote_id = 0;               // all but REQ and SIDR: the receiver's connection
  uint64_t service_id = 0;              // REQ, SIDR
  uint64_t ca_guid = 0;                 // REQ, REP
  uint32_t qkey = 0;                    // REQ, REP, SIDR_REP
  uint32_t qpn = 0;                     // REQ, REP, SIDR_REP: of the sender; DREQ: of the receiver. 24 bits
  uint32_t psn = 0;                     // REQ, REP: the sender's first. 24 bits
  uint8_t responder_resources = 0;      // REQ, REP
  uint8_t initiator_depth = 0;          // REQ, REP
  uint8_t service = 0;                  // REQ: 0 RC, 1 UC
  uint8_t flow_control = 0;             // REQ, REP
  uint8_t retry_count = 0;              // REQ, 3 bits
  uint8_t rnr_retry = 0;                // REQ, REP, 3 bits
  uint8_t srq = 0;                      // REQ, REP
  uint8_t local_response_timeout = 0;   // REQ: how long it waits for an answer, 4.096 us * 2^n
  uint8_t remote_response_timeout = 0;  // REQ: how long it lets the receiver take
  uint8_t max_retries = 0;              // REQ, 4 bits
  uint16_t pkey = 0;                    // REQ, SIDR_REQ
  uint8_t path_mtu = 0;                 // REQ: enum ibv_mtu
  MadPath path{};                       // REQ
  uint8_t ack_delay = 0;                // REP
  uint8_t about = 0;                    // REJ, MRA: which message: 0 REQ, 1 REP, 2 (REJ only) none of them
  uint16_t reason = 0;                  // REJ
  uint8_t service_timeout = 0;          // MRA: 4.096 us * 2^n
  uint8_t status = 0;                   // SIDR_REP: 0 valid, 1 no such service, 2 refused
  MadAddress address{};                 // kWhoHas, kHas
  MadProcess process{};                 // kIsThere: of its sender
  std::array<std::byte, 224> private_data{};  // private_bytes() of them
  friend bool operator==(const CmMad&, const CmMad&) = default;
};

/// How much private data a message of this kind carries, always in full.
[[nodiscard]] size_t private_bytes(MadKind kind) noexcept;

enum class MadError : uint8_t { kNone, kLength, kHeader, kKind, kReserved, kCount };
[[nodiscard]] std::string_view to_string(MadError error) noexcept;

[[nodiscard]] MadBytes encode_mad(const CmMad& mad) noexcept;
/// Reads one message; `out` is set only on kNone.
[[nodiscard]] MadError decode_mad(std::span<const std::byte> in, CmMad& out) noexcept;

}  // namespace weft
