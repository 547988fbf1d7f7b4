// messages/failure.h -- why a request failed or a message was refused: for each reason one code, one text and
// one cure. The code is ibv_wc.vendor_err and is shown on the program's stats page. docs/verbs.md lists the
// codes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/counters.h"

namespace weft {

/// High byte: the side that found the fault, and the subject. Low byte of the first three groups:
/// adapter::AccessFault.
enum class Reason : uint16_t {
  kNone = 0,

  // An LKey of a work request (TPT-LOCAL-02).
  kLocalMemory = 0x100,
  kLocalKeyUnknown = 0x101,
  kLocalKeyOfWindow = 0x102,
  kLocalWrongPd = 0x103,
  kLocalKeyOld = 0x104,
  kLocalOutOfBounds = 0x105,
  kLocalRightMissing = 0x106,
  kLocalGone = 0x10B,

  // An RKey in a message of the peer (TPT-REMOTE-02).
  kRemoteMemory = 0x200,
  kRemoteKeyUnknown = 0x201,
  kRemoteKeyOfRegion = 0x202,
  kRemoteWrongPd = 0x203,
  kRemoteKeyOld = 0x204,
  kRemoteOutOfBounds = 0x205,
  kRemoteRightMissing = 0x206,
  kRemoteGone = 0x20B,
  kRemoteWrongQp = 0x20C,

  // A bind, an invalidation or a registration by work request.
  kBind = 0x300,
  kBindKeyUnknown = 0x301,
  kBindWrongType = 0x302,
  kBindWrongPd = 0x303,
  kBindKeyOld = 0x304,
  kBindOutOfBounds = 0x305,
  kBindRightMissing = 0x306,
  kBindNotAllowed = 0x307,
  kBindBoundAlready = 0x308,
  kBindBadRights = 0x309,
  kBindNoRoom = 0x30A,
  kBindNothingStaged = 0x30B,
  kBindWrongQp = 0x30C,

  // The request itself.
  kDatagramTooLong = 0x401,
  kNoReadsAllowed = 0x402,
  kNoPacketMemory = 0x403,
  kNotIpv6 = 0x404,
  kNoRegistration = 0x405,
  kNoDatagramContext = 0x406,

  // A negative answer of the peer.
  kPeerRefusesAccess = 0x501,
  kPeerRefusesRequest = 0x502,
  kPeerHasNoMemory = 0x503,
  kPeerHasNoReceive = 0x504,
  kPeerNeverReceives = 0x505,
  kPeerCrc = 0x506,
  kPeerBadResponse = 0x507,

  // No answer.
  kPeerNeverAnswered = 0x601,
  kPeerWentSilent = 0x602,
  kPeerOtherPsn = 0x603,
  kPortDown = 0x604,
  kLidChanged = 0x605,
  kWindowFailed = 0x606,

  // A message of the peer that this side refuses.
  kUnsupported = 0x701,
  kQpRightMissing = 0x702,
  kReadsNotGranted = 0x703,
  kWrongQkey = 0x704,
  kWrongSrq = 0x705,
  kNoReceive = 0x706,
  kReceiveTooShort = 0x707,
  kMessageTooLong = 0x708,
  kMessageCrc = 0x709,
  kContradiction = 0x70A,
  kMisaligned = 0x70B,

  // Cells of a peer that this side drops, and that the peer repeats.
  kNoSuchQp = 0x801,
  kQpNotReady = 0x802,
  kWrongPeer = 0x803,
  kWrongPsn = 0x804,
  kWrongPkey = 0x805,

  // The end of a QP.
  kEndedByProgram = 0x901,
  kCqOverrun = 0x902,
  kCellsChanged = 0x903,
  kSrqDestroyed = 0x904,
};

/// The kind of the request, of either side.
enum class FailedWork : uint8_t {
  kNone,
  kSend,
  kWrite,
  kRead,
  kAtomic,
  kBind,
  kInvalidate,
  kRegister,
  kReceive,
  kCount
};

/// A failed request of this side, or a refused message of a peer.
struct Failure {
  Reason reason = Reason::kNone;
  FailedWork work = FailedWork::kNone;
  uint8_t status = 0;         // status of the completion (enum ibv_wc_status); 0: no completion reports it
  bool by_peer = false;       // the refused message came from the peer
  bool completes_wr = false;  // wr_id belongs to a work request of this side
  uint16_t peer_lid = 0;      // 0: unknown
  uint32_t qpn = 0;           // of this side
  uint32_t peer_qpn = 0;
  uint64_t wr_id = 0;
  uint32_t key = 0;      // LKey or RKey; 0: no key is concerned, or an LKey that was never set
  uint64_t address = 0;  // with a key: first address
  uint64_t bytes = 0;    // length of the request or message
  /// Two values by reason. ..OutOfBounds: first address and bytes of the region. kReceiveTooShort: bytes of
  /// the receive. kWrongPeer: LID and QP of the connected peer. kWrongPsn: expected PSN, received PSN.
  /// kQpNotReady: state of the QP. kPeerHasNoReceive: retries in `extent`. kPeerNeverReceives: ms waited.
  /// kPeerNeverAnswered, kPeerWentSilent and kPeerOtherPsn: ms waited, retries.
  uint64_t expected = 0;
  uint64_t extent = 0;
};

struct ReasonRule {
  Reason reason;
  std::string_view text;  // what is wrong
  std::string_view cure;  // what to do
};

/// All reasons, in the order of their codes.
[[nodiscard]] std::span<const ReasonRule> reason_rules() noexcept;
/// Null for an unknown code.
[[nodiscard]] const ReasonRule* find_reason(uint32_t code) noexcept;
/// The text of ibv_wc_status_str(), and "unknown" for other numbers.
[[nodiscard]] const char* completion_status_text(uint32_t status) noexcept;
[[nodiscard]] std::string_view to_string(FailedWork work) noexcept;
/// A failure on a stats page. kNumber counts from 1; 0 is an empty place.
enum class FailureGauge : uint8_t {
  kNumber,
  kReason,
  kWork,
  kStatus,
  kByPeer,
  kCompletesWr,
  kQpn,
  kPeerLid,
  kPeerQpn,
  kWrId,
  kKey,
  kAddress,
  kBytes,
  kExpected,
  kExtent,
  kCount
};
[[nodiscard]] constexpr CounterNames<FailureGauge> counter_labels(FailureGauge /*of*/) noexcept {
  return {"number",  "vendor_err", "work", "status",  "by_peer", "completes_wr", "qp",    "peer_lid",
          "peer_qp", "wr_id",      "key",  "address", "bytes",   "expected",     "extent"};
}
/// The values of all gauges, in their order.
using FailureGauges = std::array<uint64_t, static_cast<size_t>(FailureGauge::kCount)>;
/// Number of failures that a page shows.
inline constexpr size_t kFailuresShown = 8;
/// "failed.0", ...
[[nodiscard]] std::string failure_prefix(size_t place);
[[nodiscard]] FailureGauges gauges_of(const Failure& failure, uint64_t number) noexcept;
/// Inverse of gauges_of(); accepts any values.
[[nodiscard]] Failure failure_of(const FailureGauges& gauges) noexcept;

/// One line: which request, to which peer, what is wrong, what to do. May throw for lack of memory.
[[nodiscard]] std::string describe(const Failure& failure);

}  // namespace weft
