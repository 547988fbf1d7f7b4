#include "messages/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace weft {
namespace {

constexpr std::array kRules{
    ReasonRule{Reason::kLocalKeyUnknown,
               "no memory region has this lkey: it was never registered, or was deregistered",
               "take mr->lkey, and call ibv_dereg_mr only after the request has completed"},
    ReasonRule{Reason::kLocalKeyOfWindow, "the key is an rkey, not an lkey",
               "take mr->lkey, not the rkey of a window or of the peer"},
    ReasonRule{Reason::kLocalWrongPd, "the memory region belongs to another protection domain than the QP",
               "register the memory and create the QP with the same ibv_pd"},
    ReasonRule{Reason::kLocalKeyOld, "the memory region of this lkey was deregistered",
               "call ibv_dereg_mr only after the request has completed"},
    ReasonRule{Reason::kLocalOutOfBounds, "the segment is not within its memory region",
               "check sge.addr and sge.length against what was registered"},
    ReasonRule{Reason::kLocalRightMissing, "the memory region does not allow this adapter to write",
               "register it with IBV_ACCESS_LOCAL_WRITE: receives, reads and atomics write"},
    ReasonRule{Reason::kLocalGone, "the program has unmapped the registered memory",
               "free memory only after ibv_dereg_mr"},

    ReasonRule{Reason::kRemoteKeyUnknown,
               "no memory region here has this rkey: it was never registered, or was deregistered",
               "send the peer mr->rkey, and call ibv_dereg_mr only after the peer has finished"},
    ReasonRule{Reason::kRemoteKeyOfRegion, "the region of this key grants no remote access",
               "register it with the IBV_ACCESS_REMOTE_* right, and send the peer mr->rkey"},
    ReasonRule{Reason::kRemoteWrongPd, "the memory region belongs to another protection domain than the QP",
               "register the memory and create the QP with the same ibv_pd"},
    ReasonRule{Reason::kRemoteKeyOld, "the memory region of this rkey was deregistered",
               "call ibv_dereg_mr only after the peer has finished"},
    ReasonRule{Reason::kRemoteOutOfBounds, "the address range is not within the memory region",
               "check the address and length that the peer uses against what was registered"},
    ReasonRule{Reason::kRemoteRightMissing, "the memory region does not grant this kind of remote access",
               "register it with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC, as the peer needs"},
    ReasonRule{Reason::kRemoteGone, "the program has unmapped the registered memory",
               "free memory only after ibv_dereg_mr"},
    ReasonRule{Reason::kRemoteWrongQp, "the memory window is bound to another QP",
               "bind it on the QP that the peer is connected to"},

    ReasonRule{Reason::kBindKeyUnknown, "no region or window has this key",
               "take the keys of a region and a window that exist"},
    ReasonRule{Reason::kBindWrongType, "the key is of another kind than the request needs",
               "a bind needs the lkey of a region and the rkey of a window"},
    ReasonRule{Reason::kBindWrongPd, "region, window and QP are not of one protection domain",
               "create them with the same ibv_pd"},
    ReasonRule{Reason::kBindKeyOld, "the key is an old one", "take mw->rkey after the latest bind"},
    ReasonRule{Reason::kBindOutOfBounds, "the range is not within the region",
               "check bind_info.addr and bind_info.length"},
    ReasonRule{Reason::kBindRightMissing, "the region does not have the right that the window would grant",
               "register the region with IBV_ACCESS_LOCAL_WRITE"},
    ReasonRule{Reason::kBindNotAllowed, "the region does not allow windows",
               "register it with IBV_ACCESS_MW_BIND"},
    ReasonRule{Reason::kBindBoundAlready, "the window is bound already", "invalidate it first"},
    ReasonRule{Reason::kBindBadRights, "a window cannot have these rights",
               "remote read, write and atomic are possible"},
    ReasonRule{Reason::kBindNoRoom, "the adapter's tables of pages are full", "deregister regions"},
    ReasonRule{Reason::kBindNothingStaged, "there is no memory for the registration", "stage memory first"},
    ReasonRule{Reason::kBindWrongQp, "the window is bound to another QP", "use the QP that it was bound on"},

    ReasonRule{Reason::kDatagramTooLong, "a datagram holds no more than one cell's payload",
               "send at most the port's active_mtu"},
    ReasonRule{Reason::kNoReadsAllowed, "the QP may have no RDMA read or atomic in flight",
               "set max_rd_atomic to 1 or more in ibv_modify_qp to RTS; with rdma_cm set initiator_depth in "
               "rdma_connect and responder_resources in rdma_accept"},
    ReasonRule{Reason::kNoPacketMemory, "the process has no memory for one more packet", "free memory"},
    ReasonRule{Reason::kNotIpv6, "the data of a raw request is no IPv6 packet",
               "begin it with an IPv6 header"},
    ReasonRule{Reason::kNoRegistration, "the QP takes no registrations", "create it with that option"},
    ReasonRule{Reason::kNoDatagramContext, "all contexts for remote endnodes are in use",
               "use fewer destinations at a time"},

    ReasonRule{Reason::kPeerRefusesAccess, "the peer refuses this rkey, address and length",
               "the rkey must be mr->rkey of a region that is registered there, in the PD of the peer's QP, "
               "holds the range and grants the right; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerRefusesRequest, "the peer does not take this request",
               "its QP may lack the right in qp_access_flags, its receive may be too short, an atomic may be "
               "misaligned; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerHasNoMemory, "the peer cannot reach its own memory for this request",
               "its receive request may have a wrong lkey; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerHasNoReceive, "the peer has no receive request posted",
               "post receives there before sending; rnr_retry 7 waits for ever"},
    ReasonRule{Reason::kPeerNeverReceives, "the request waits: the peer has no receive request posted",
               "post receives there; rnr_retry 7 waits for ever"},
    ReasonRule{Reason::kPeerCrc, "the peer finds the packet damaged each time",
               "look for a fault at both processes"},
    ReasonRule{Reason::kPeerBadResponse, "the peer's answer does not fit the request",
               "look for a fault at the peer, which breaks the protocol"},

    ReasonRule{
        Reason::kPeerNeverAnswered, "the peer has never answered",
        "compare dlid and dest_qp_num with the peer's LID and QP number; its process must run, and its "
        "QP must be in RTR or RTS and name this QP; weft devices lists LIDs"},
    ReasonRule{
        Reason::kPeerWentSilent, "the peer no longer answers",
        "it has ended, moved its QP out of RTS, or the fabric loses cells: weft status, weft fault list"},
    ReasonRule{Reason::kPeerOtherPsn, "the peer acknowledges other packet numbers",
               "sq_psn of each side must be rq_psn of the other"},
    ReasonRule{Reason::kPortDown, "the port has been down for 10 s", "weft status: the switch has ended"},
    ReasonRule{Reason::kLidChanged, "the port has another LID than when the request left", "connect again"},
    ReasonRule{Reason::kWindowFailed, "the memory window could not move the data", "connect again"},

    ReasonRule{Reason::kUnsupported, "the service of the QP does not have this operation",
               "UC has no reads and atomics, UD has only sends"},
    ReasonRule{Reason::kQpRightMissing, "the QP does not grant this kind of remote access",
               "set IBV_ACCESS_REMOTE_* in qp_access_flags of ibv_modify_qp to INIT"},
    ReasonRule{Reason::kReadsNotGranted, "the QP serves no RDMA reads and atomics",
               "set max_dest_rd_atomic to 1 or more in ibv_modify_qp to RTR; with rdma_cm set "
               "initiator_depth in rdma_connect and responder_resources in rdma_accept"},
    ReasonRule{Reason::kWrongQkey, "the Q_Key of the datagram is not that of the QP",
               "the sender's wr.ud.remote_qkey must be the receiver's qkey"},
    ReasonRule{Reason::kWrongSrq, "the domain has no shared receive queue of this number",
               "the sender's remote_srqn must be that of ibv_get_srq_num"},
    ReasonRule{Reason::kNoReceive, "no receive request is posted",
               "post receives before the peer sends, and one more for each that has completed"},
    ReasonRule{Reason::kReceiveTooShort, "the message is longer than the receive request",
               "post receives as long as the longest message; datagrams need 40 bytes more"},
    ReasonRule{Reason::kMessageTooLong, "the message is longer than max_msg_sz", "send it in parts"},
    ReasonRule{Reason::kMessageCrc, "the packet arrived damaged", "look for a fault at both processes"},
    ReasonRule{Reason::kContradiction, "the cells of the message contradict each other",
               "look for a fault at the peer, which breaks the protocol"},
    ReasonRule{Reason::kMisaligned, "the address of an atomic operation is no multiple of 8",
               "align it: atomics change 8 bytes"},

    ReasonRule{Reason::kNoSuchQp, "this process has no QP of this number",
               "the sender's dest_qp_num must be qp_num of a QP that exists"},
    ReasonRule{Reason::kQpNotReady, "the QP does not receive in its state",
               "move it to RTR before the peer sends"},
    ReasonRule{Reason::kWrongPeer, "the QP is connected to another QP",
               "dest_qp_num and dlid of each side must name the other"},
    ReasonRule{Reason::kWrongPsn, "the packet number is not the one that the QP expects",
               "the sender's sq_psn must be this side's rq_psn"},
    ReasonRule{Reason::kWrongPkey, "the cell is of another partition than the QP",
               "pkey_index of both sides must name the same partition"},

    ReasonRule{Reason::kEndedByProgram, "the program has moved the QP to the error state",
               "nothing is wrong"},
    ReasonRule{Reason::kCqOverrun, "a completion queue of the QP was full and has lost a completion",
               "create it with cqe for all requests of all its QPs, and poll it"},
    ReasonRule{Reason::kCellsChanged, "the switch came back with cells of another size", "connect again"},
    ReasonRule{Reason::kSrqDestroyed, "its shared receive queue was destroyed while a message arrived",
               "destroy QPs first"},
};

constexpr std::array<std::string_view, static_cast<size_t>(FailedWork::kCount)> kWorkNames{
    "request", "send", "RDMA write", "RDMA read", "atomic", "bind", "invalidate", "registration", "receive"};

/// Texts of enum ibv_wc_status in its order, worded as in libibverbs.
constexpr std::array<const char*, 24> kStatusTexts{"success",
                                                   "local length error",
                                                   "local QP operation error",
                                                   "local EE context operation error",
                                                   "local protection error",
                                                   "Work Request Flushed Error",
                                                   "memory management operation error",
                                                   "bad response error",
                                                   "local access error",
                                                   "remote invalid request error",
                                                   "remote access error",
                                                   "remote operation error",
                                                   "transport retry counter exceeded",
                                                   "RNR retry counter exceeded",
                                                   "local RDD violation error",
                                                   "remote invalid RD request",
                                                   "aborted error",
                                                   "invalid EE context number",
                                                   "invalid EE context state",
                                                   "fatal error",
                                                   "response timeout error",
                                                   "general error",
                                                   "TM error",
                                                   "TM software rendezvous"};

bool is_local_key(Reason reason) noexcept {
  return static_cast<uint16_t>(reason) >> 8 == static_cast<uint16_t>(Reason::kLocalMemory) >> 8;
}

/// Key, address and length, and for bounds the region's range. An lkey of 0 is one that was never set.
std::string place_of(const Failure& failure) {
  if (failure.key == 0 && !is_local_key(failure.reason)) return {};
  std::string out =
      fmt::format(" ({} {:#x}, {} bytes at {:#x}", is_local_key(failure.reason) ? "lkey" : "rkey",
                  failure.key, failure.bytes, failure.address);
  const bool bounds =
      failure.reason == Reason::kLocalOutOfBounds || failure.reason == Reason::kRemoteOutOfBounds;
  if (bounds && failure.extent != 0)
    out += fmt::format("; the region has {} bytes at {:#x}", failure.extent, failure.expected);
  return out + ")";
}

std::string_view state_name(uint64_t state) noexcept {
  constexpr std::array<std::string_view, 7> kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return state < kStates.size() ? kStates[state] : "?";
}

/// The values that were compared, by reason.
std::string numbers_of(const Failure& failure) {
  const Reason reason = failure.reason;
  if (reason == Reason::kReceiveTooShort)
    return fmt::format(" (message of {} bytes or more, receive of {})", failure.bytes, failure.expected);
  if (reason == Reason::kWrongPeer)
    return fmt::format(" (LID {} QP {:#x})", failure.expected, failure.extent);
  if (reason == Reason::kWrongPsn)
    return fmt::format(" (expected {:#x}, came {:#x})", failure.expected, failure.extent);
  if (reason == Reason::kQpNotReady) return fmt::format(" ({})", state_name(failure.expected));
  if (reason == Reason::kPeerHasNoReceive) return fmt::format(" (asked {} times)", failure.extent + 1);
  if (reason == Reason::kPeerNeverReceives) return fmt::format(" (for {} ms so far)", failure.expected);
  const bool silent = reason == Reason::kPeerNeverAnswered || reason == Reason::kPeerWentSilent ||
                      reason == Reason::kPeerOtherPsn;
  return silent ? fmt::format(" ({} ms, {} retries)", failure.expected, failure.extent) : std::string();
}

std::string peer_of(const Failure& failure) {
  return failure.peer_lid == 0 ? std::string()
                               : fmt::format("LID {} QP {:#x}", failure.peer_lid, failure.peer_qpn);
}

std::string subject_of(const Failure& failure) {
  const std::string peer = peer_of(failure);
  if (failure.by_peer) {
    const std::string receive =
        failure.completes_wr ? fmt::format(", receive wr_id {:#x}", failure.wr_id) : std::string();
    return fmt::format("QP {:#x} refuses {}{}{}{}", failure.qpn,
                       failure.work == FailedWork::kNone ? "cells" : to_string(failure.work),
                       peer.empty() ? "" : " of ", peer, receive);
  }
  const std::string request =
      failure.completes_wr ? fmt::format("{} wr_id {:#x}", to_string(failure.work), failure.wr_id)
                           : std::string(failure.work == FailedWork::kNone ? "" : to_string(failure.work));
  return fmt::format("QP {:#x}{}{}{}{}", failure.qpn, request.empty() ? "" : ": ", request,
                     peer.empty() ? "" : " to ", peer);
}

}  // namespace

std::span<const ReasonRule> reason_rules() noexcept {
  return kRules;
}

const ReasonRule* find_reason(uint32_t code) noexcept {
  const auto* const found = std::find_if(kRules.begin(), kRules.end(), [code](const ReasonRule& rule) {
    return static_cast<uint32_t>(rule.reason) == code;
  });
  return found == kRules.end() ? nullptr : found;
}

const char* completion_status_text(uint32_t status) noexcept {
  return status < kStatusTexts.size() ? kStatusTexts[status] : "unknown";
}

std::string_view to_string(FailedWork work) noexcept {
  return work < FailedWork::kCount ? kWorkNames[static_cast<size_t>(work)] : "?";
}

std::string failure_prefix(size_t place) {
  return fmt::format("failed.{}", place);
}

FailureGauges gauges_of(const Failure& failure, uint64_t number) noexcept {
  return {number,
          static_cast<uint64_t>(failure.reason),
          static_cast<uint64_t>(failure.work),
          failure.status,
          failure.by_peer ? 1U : 0U,
          failure.completes_wr ? 1U : 0U,
          failure.qpn,
          failure.peer_lid,
          failure.peer_qpn,
          failure.wr_id,
          failure.key,
          failure.address,
          failure.bytes,
          failure.expected,
          failure.extent};
}

Failure failure_of(const FailureGauges& gauges) noexcept {
  const auto value = [&](FailureGauge gauge) { return gauges[static_cast<size_t>(gauge)]; };
  return {.reason = static_cast<Reason>(value(FailureGauge::kReason)),
          .work = static_cast<FailedWork>(value(FailureGauge::kWork)),
          .status = static_cast<uint8_t>(value(FailureGauge::kStatus)),
          .by_peer = value(FailureGauge::kByPeer) != 0,
          .completes_wr = value(FailureGauge::kCompletesWr) != 0,
          .peer_lid = static_cast<uint16_t>(value(FailureGauge::kPeerLid)),
          .qpn = static_cast<uint32_t>(value(FailureGauge::kQpn)),
          .peer_qpn = static_cast<uint32_t>(value(FailureGauge::kPeerQpn)),
          .wr_id = value(FailureGauge::kWrId),
          .key = static_cast<uint32_t>(value(FailureGauge::kKey)),
          .address = value(FailureGauge::kAddress),
          .bytes = value(FailureGauge::kBytes),
          .expected = value(FailureGauge::kExpected),
          .extent = value(FailureGauge::kExtent)};
}

std::string describe(const Failure& failure) {
  const auto code = static_cast<uint32_t>(failure.reason);
  const ReasonRule* const rule = find_reason(code);
  const std::string status =
      failure.status == 0 ? std::string() : fmt::format(": {}", completion_status_text(failure.status));
  return fmt::format("{}{}, vendor_err {:#x}: {}{}{}; {}", subject_of(failure), status, code,
                     rule != nullptr ? rule->text : "?", place_of(failure), numbers_of(failure),
                     rule != nullptr ? rule->cure : "?");
}

}  // namespace weft
