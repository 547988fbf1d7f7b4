// messages/failure.h -- what follows from each reason (base/reason.h), as one table: the status and number
// of a failed completion, the errno of a refused call, text and cure. The number is ibv_wc.vendor_err and
// is shown on the program's stats page; docs/verbs.md lists the numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/counters.h"
#include "base/reason.h"

namespace weft {

/// Numbers as in enum ibv_wc_status.
enum class WcStatus : uint8_t {
  kSuccess = 0,
  kLocalLength = 1,
  kLocalQpOperation = 2,
  kLocalEecOperation = 3,
  kLocalProtection = 4,
  kFlushed = 5,
  kMwBind = 6,
  kBadResponse = 7,
  kLocalAccess = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperation = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 17,
  kFatal = 19,
  kResponseTimeout = 20,
  kGeneral = 21,
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
  uint16_t code;  // ibv_wc.vendor_err; high byte: the side that found the fault, and the subject; 0: of calls
  WcStatus status;        // of a request of this side that fails; kSuccess: none fails by it
  int error;              // errno of a refused call; 0: no call is refused by it
  std::string_view text;  // what is wrong
  std::string_view cure;  // what to do; of failed requests
};

/// One row for each reason, in their order; the first is kOk.
[[nodiscard]] std::span<const ReasonRule> reason_rules() noexcept;
/// The row of kNone for a number that is no reason.
[[nodiscard]] const ReasonRule& rule_of(Reason reason) noexcept;
/// kNone for an unknown code.
[[nodiscard]] Reason find_reason(uint32_t code) noexcept;
/// The text of the row.
[[nodiscard]] std::string_view to_string(Reason reason) noexcept;
/// 0 for kOk; EINVAL for a reason of failed requests that a call returns.
[[nodiscard]] int errno_of(Reason reason) noexcept;
/// The text of ibv_wc_status_str(), and "unknown" for other numbers.
[[nodiscard]] const char* completion_status_text(uint32_t status) noexcept;
[[nodiscard]] std::string_view to_string(WcStatus status) noexcept;
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
