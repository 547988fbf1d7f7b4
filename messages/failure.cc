#include "messages/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace weft {
namespace {

/// The row of a refused call.
constexpr ReasonRule call(Reason reason, int error, std::string_view text) noexcept {
  return {reason, 0, WcStatus::kSuccess, error, text, {}};
}

constexpr std::array kRules{
    ReasonRule{Reason::kOk, 0, WcStatus::kSuccess, 0, "ok", "nothing is wrong"},

    ReasonRule{Reason::kLocalKeyUnknown, 0x101, WcStatus::kLocalProtection, 0,
               "no memory region has this lkey: it was never registered, or was deregistered",
               "take mr->lkey, and call ibv_dereg_mr only after the request has completed"},
    ReasonRule{Reason::kLocalKeyOfWindow, 0x102, WcStatus::kLocalProtection, 0,
               "the key is an rkey, not an lkey", "take mr->lkey, not the rkey of a window or of the peer"},
    ReasonRule{Reason::kLocalWrongPd, 0x103, WcStatus::kLocalProtection, 0,
               "the memory region belongs to another protection domain than the QP",
               "register the memory and create the QP with the same ibv_pd"},
    ReasonRule{Reason::kLocalKeyOld, 0x104, WcStatus::kLocalProtection, 0,
               "the memory region of this lkey was deregistered",
               "call ibv_dereg_mr only after the request has completed"},
    ReasonRule{Reason::kLocalOutOfBounds, 0x105, WcStatus::kLocalProtection, 0,
               "the segment is not within its memory region",
               "check sge.addr and sge.length against what was registered"},
    ReasonRule{Reason::kLocalRightMissing, 0x106, WcStatus::kLocalProtection, 0,
               "the memory region does not allow this adapter to write",
               "register it with IBV_ACCESS_LOCAL_WRITE: receives, reads and atomics write"},
    ReasonRule{Reason::kLocalGone, 0x10B, WcStatus::kLocalProtection, 0,
               "the program has unmapped the registered memory", "free memory only after ibv_dereg_mr"},

    ReasonRule{Reason::kRemoteKeyUnknown, 0x201, WcStatus::kSuccess, 0,
               "no memory region here has this rkey: it was never registered, or was deregistered",
               "send the peer mr->rkey, and call ibv_dereg_mr only after the peer has finished"},
    ReasonRule{Reason::kRemoteKeyOfRegion, 0x202, WcStatus::kSuccess, 0,
               "the region of this key grants no remote access",
               "register it with the IBV_ACCESS_REMOTE_* right, and send the peer mr->rkey"},
    ReasonRule{Reason::kRemoteWrongPd, 0x203, WcStatus::kSuccess, 0,
               "the memory region belongs to another protection domain than the QP",
               "register the memory and create the QP with the same ibv_pd"},
    ReasonRule{Reason::kRemoteKeyOld, 0x204, WcStatus::kSuccess, 0,
               "the memory region of this rkey was deregistered",
               "call ibv_dereg_mr only after the peer has finished"},
    ReasonRule{Reason::kRemoteOutOfBounds, 0x205, WcStatus::kSuccess, 0,
               "the address range is not within the memory region",
               "check the address and length that the peer uses against what was registered"},
    ReasonRule{Reason::kRemoteRightMissing, 0x206, WcStatus::kSuccess, 0,
               "the memory region does not grant this kind of remote access",
               "register it with IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC, as the peer needs"},
    ReasonRule{Reason::kRemoteGone, 0x20B, WcStatus::kSuccess, 0,
               "the program has unmapped the registered memory", "free memory only after ibv_dereg_mr"},
    ReasonRule{Reason::kRemoteWrongQp, 0x20C, WcStatus::kSuccess, 0,
               "the memory window is bound to another QP", "bind it on the QP that the peer is connected to"},

    ReasonRule{Reason::kBindKeyUnknown, 0x301, WcStatus::kMwBind, 0, "no region or window has this key",
               "take the keys of a region and a window that exist"},
    ReasonRule{Reason::kBindWrongType, 0x302, WcStatus::kMwBind, 0,
               "the key is of another kind than the request needs",
               "a bind needs the lkey of a region and the rkey of a window"},
    ReasonRule{Reason::kBindWrongPd, 0x303, WcStatus::kMwBind, 0,
               "region, window and QP are not of one protection domain", "create them with the same ibv_pd"},
    ReasonRule{Reason::kBindKeyOld, 0x304, WcStatus::kMwBind, 0, "the key is an old one",
               "take mw->rkey after the latest bind"},
    ReasonRule{Reason::kBindOutOfBounds, 0x305, WcStatus::kMwBind, 0, "the range is not within the region",
               "check bind_info.addr and bind_info.length"},
    ReasonRule{Reason::kBindRightMissing, 0x306, WcStatus::kMwBind, 0,
               "the region does not have the right that the window would grant",
               "register the region with IBV_ACCESS_LOCAL_WRITE"},
    ReasonRule{Reason::kBindNotAllowed, 0x307, WcStatus::kMwBind, 0, "the region does not allow windows",
               "register it with IBV_ACCESS_MW_BIND"},
    ReasonRule{Reason::kBindBoundAlready, 0x308, WcStatus::kMwBind, 0, "the window is bound already",
               "invalidate it first"},
    ReasonRule{Reason::kBindBadRights, 0x309, WcStatus::kMwBind, 0, "a window cannot have these rights",
               "remote read, write and atomic are possible"},
    ReasonRule{Reason::kBindNoRoom, 0x30A, WcStatus::kMwBind, 0, "the adapter's tables of pages are full",
               "deregister regions"},
    ReasonRule{Reason::kBindNothingStaged, 0x30B, WcStatus::kMwBind, 0,
               "there is no memory for the registration", "stage memory first"},
    ReasonRule{Reason::kBindWrongQp, 0x30C, WcStatus::kMwBind, 0, "the window is bound to another QP",
               "use the QP that it was bound on"},

    ReasonRule{Reason::kDatagramTooLong, 0x401, WcStatus::kLocalLength, 0,
               "a datagram holds no more than one cell's payload", "send at most the port's active_mtu"},
    ReasonRule{Reason::kNoReadsAllowed, 0x402, WcStatus::kLocalQpOperation, 0,
               "the QP may have no RDMA read or atomic in flight",
               "set max_rd_atomic to 1 or more in ibv_modify_qp to RTS; with rdma_cm set initiator_depth in "
               "rdma_connect and responder_resources in rdma_accept"},
    ReasonRule{Reason::kNoPacketMemory, 0x403, WcStatus::kLocalQpOperation, 0,
               "the process has no memory for one more packet", "free memory"},
    ReasonRule{Reason::kNotIpv6, 0x404, WcStatus::kLocalQpOperation, 0,
               "the data of a raw request is no IPv6 packet", "begin it with an IPv6 header"},
    ReasonRule{Reason::kNoRegistration, 0x405, WcStatus::kLocalQpOperation, 0,
               "the QP takes no registrations", "create it with that option"},
    ReasonRule{Reason::kNoDatagramContext, 0x406, WcStatus::kLocalEecOperation, 0,
               "all contexts for remote endnodes are in use", "use fewer destinations at a time"},

    ReasonRule{Reason::kPeerRefusesAccess, 0x501, WcStatus::kRemoteAccess, 0,
               "the peer refuses this rkey, address and length",
               "the rkey must be mr->rkey of a region that is registered there, in the PD of the peer's QP, "
               "holds the range and grants the right; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerRefusesRequest, 0x502, WcStatus::kRemoteInvalidRequest, 0,
               "the peer does not take this request",
               "its QP may lack the right in qp_access_flags, its receive may be too short, an atomic may be "
               "misaligned; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerHasNoMemory, 0x503, WcStatus::kRemoteOperation, 0,
               "the peer cannot reach its own memory for this request",
               "its receive request may have a wrong lkey; WEFT_DEBUG=verbs at the peer names the rule"},
    ReasonRule{Reason::kPeerHasNoReceive, 0x504, WcStatus::kRnrRetryExceeded, 0,
               "the peer has no receive request posted",
               "post receives there before sending; rnr_retry 7 waits for ever"},
    ReasonRule{Reason::kPeerNeverReceives, 0x505, WcStatus::kSuccess, 0,
               "the request waits: the peer has no receive request posted",
               "post receives there; rnr_retry 7 waits for ever"},
    ReasonRule{Reason::kPeerCrc, 0x506, WcStatus::kRetryExceeded, 0,
               "the peer finds the packet damaged each time", "look for a fault at both processes"},
    ReasonRule{Reason::kPeerBadResponse, 0x507, WcStatus::kBadResponse, 0,
               "the peer's answer does not fit the request",
               "look for a fault at the peer, which breaks the protocol"},

    ReasonRule{
        Reason::kPeerNeverAnswered, 0x601, WcStatus::kRetryExceeded, 0, "the peer has never answered",
        "compare dlid and dest_qp_num with the peer's LID and QP number; its process must run, and its "
        "QP must be in RTR or RTS and name this QP; weft devices lists LIDs"},
    ReasonRule{
        Reason::kPeerWentSilent, 0x602, WcStatus::kRetryExceeded, 0, "the peer no longer answers",
        "it has ended, moved its QP out of RTS, or the fabric loses cells: weft status, weft fault list"},
    ReasonRule{Reason::kPeerOtherPsn, 0x603, WcStatus::kRetryExceeded, 0,
               "the peer acknowledges other packet numbers",
               "sq_psn of each side must be rq_psn of the other"},
    ReasonRule{Reason::kPortDown, 0x604, WcStatus::kRetryExceeded, 0, "the port has been down for 10 s",
               "weft status: the switch has ended"},
    ReasonRule{Reason::kLidChanged, 0x605, WcStatus::kRetryExceeded, 0,
               "the port has another LID than when the request left", "connect again"},
    ReasonRule{Reason::kWindowFailed, 0x606, WcStatus::kRetryExceeded, 0,
               "the memory window could not move the data", "connect again"},

    ReasonRule{Reason::kUnsupported, 0x701, WcStatus::kSuccess, 0,
               "the service of the QP does not have this operation",
               "UC has no reads and atomics, UD has only sends"},
    ReasonRule{Reason::kQpRightMissing, 0x702, WcStatus::kSuccess, 0,
               "the QP does not grant this kind of remote access",
               "set IBV_ACCESS_REMOTE_* in qp_access_flags of ibv_modify_qp to INIT"},
    ReasonRule{Reason::kReadsNotGranted, 0x703, WcStatus::kSuccess, 0,
               "the QP serves no RDMA reads and atomics",
               "set max_dest_rd_atomic to 1 or more in ibv_modify_qp to RTR; with rdma_cm set "
               "initiator_depth in rdma_connect and responder_resources in rdma_accept"},
    ReasonRule{Reason::kWrongQkey, 0x704, WcStatus::kSuccess, 0,
               "the Q_Key of the datagram is not that of the QP",
               "the sender's wr.ud.remote_qkey must be the receiver's qkey"},
    ReasonRule{Reason::kWrongSrq, 0x705, WcStatus::kSuccess, 0,
               "the domain has no shared receive queue of this number",
               "the sender's remote_srqn must be that of ibv_get_srq_num"},
    ReasonRule{Reason::kNoReceive, 0x706, WcStatus::kSuccess, 0, "no receive request is posted",
               "post receives before the peer sends, and one more for each that has completed"},
    ReasonRule{Reason::kReceiveTooShort, 0x707, WcStatus::kSuccess, 0,
               "the message is longer than the receive request",
               "post receives as long as the longest message; datagrams need 40 bytes more"},
    ReasonRule{Reason::kMessageTooLong, 0x708, WcStatus::kSuccess, 0, "the message is longer than max_msg_sz",
               "send it in parts"},
    ReasonRule{Reason::kMessageCrc, 0x709, WcStatus::kSuccess, 0, "the packet arrived damaged",
               "look for a fault at both processes"},
    ReasonRule{Reason::kContradiction, 0x70A, WcStatus::kSuccess, 0,
               "the cells of the message contradict each other",
               "look for a fault at the peer, which breaks the protocol"},
    ReasonRule{Reason::kMisaligned, 0x70B, WcStatus::kSuccess, 0,
               "the address of an atomic operation is no multiple of 8", "align it: atomics change 8 bytes"},

    ReasonRule{Reason::kNoSuchQp, 0x801, WcStatus::kSuccess, 0, "this process has no QP of this number",
               "the sender's dest_qp_num must be qp_num of a QP that exists"},
    ReasonRule{Reason::kQpNotReady, 0x802, WcStatus::kSuccess, 0, "the QP does not receive in its state",
               "move it to RTR before the peer sends"},
    ReasonRule{Reason::kWrongPeer, 0x803, WcStatus::kSuccess, 0, "the QP is connected to another QP",
               "dest_qp_num and dlid of each side must name the other"},
    ReasonRule{Reason::kWrongPsn, 0x804, WcStatus::kSuccess, 0,
               "the packet number is not the one that the QP expects",
               "the sender's sq_psn must be this side's rq_psn"},
    ReasonRule{Reason::kWrongPkey, 0x805, WcStatus::kSuccess, 0,
               "the cell is of another partition than the QP",
               "pkey_index of both sides must name the same partition"},

    ReasonRule{Reason::kEndedByProgram, 0x901, WcStatus::kSuccess, 0,
               "the program has moved the QP to the error state", "nothing is wrong"},
    ReasonRule{Reason::kCqOverrun, 0x902, WcStatus::kFatal, 0,
               "a completion queue of the QP was full and has lost a completion",
               "create it with cqe for all requests of all its QPs, and poll it"},
    ReasonRule{Reason::kCellsChanged, 0x903, WcStatus::kFatal, 0,
               "the switch came back with cells of another size", "connect again"},
    ReasonRule{Reason::kSrqDestroyed, 0x904, WcStatus::kGeneral, 0,
               "its shared receive queue was destroyed while a message arrived", "destroy QPs first"},

    call(Reason::kNoSuchObject, EINVAL, "there is no domain, port or other object of this number"),
    call(Reason::kForeignObject, EINVAL, "an object belongs to another device or context"),
    call(Reason::kNoSuchKey, EINVAL, "no region or window that the call could change has this key"),
    call(Reason::kMissingObject, EINVAL, "an object that the call needs was not given"),
    call(Reason::kBadSize, EINVAL, "a size is 0, above the limit of the device, or below what is in use"),
    call(Reason::kBadRange, EINVAL, "the range has no bytes, or is not possible at its address"),
    call(Reason::kBadRights, EINVAL, "the access rights do not fit together"),
    call(Reason::kBadAddress, EINVAL, "the address is out of range"),
    call(Reason::kBadOption, EINVAL, "an option is unknown or does not fit the others"),
    call(Reason::kNoService, EOPNOTSUPP, "the device does not have this service or operation"),
    call(Reason::kNotOfService, EINVAL, "the service of the QP does not allow this"),
    call(Reason::kConfined, EINVAL, "the protection domain belongs to a user process"),
    call(Reason::kWrongMoment, EINVAL, "the object is not in a state for this call"),
    call(Reason::kNotMember, EINVAL, "the QP is no member of the group, or not registered for the protocol"),
    call(Reason::kTaken, EINVAL, "it exists already"),
    call(Reason::kBusy, EBUSY, "other objects still use it: end those first"),
    call(Reason::kTableFull, ENOMEM, "all that the device can have are in use"),
    call(Reason::kNoMemory, ENOMEM, "the process has no memory for it"),
    call(Reason::kNoDescriptor, EMFILE, "the process has no file descriptor left"),

    call(Reason::kAgain, EAGAIN, "nothing is there"),
    call(Reason::kInterrupted, EINTR, "a signal interrupted the wait"),
    call(Reason::kReentered, EDEADLK,
         "called by a signal handler that has interrupted another call on this device"),
    call(Reason::kForked, EIO,
         "this process is a child after fork(), and the object belongs to its parent: open the device in the "
         "child"),

    call(Reason::kWouldBlock, ENOMEM, "the queue is full: poll its CQ, or create it with more WRs"),
    call(Reason::kBadState, EINVAL, "the state does not allow it: sends need RTS, receives INIT or later"),
    call(Reason::kBadOpcode, EINVAL, "the service has no such operation, or not with these send_flags"),
    call(Reason::kNoDestination, EINVAL, "ah is missing or of another PD, or remote_srqn is 0"),
    call(Reason::kNoRemoteKey, EINVAL, "no remote_addr or rkey"),
    call(Reason::kBadSges, EINVAL,
         "no data segment, a negative num_sge, or data for a request that moves none"),
    call(Reason::kTooManySges, EINVAL, "num_sge is above the QP's max_send_sge or max_recv_sge"),
    call(Reason::kBadAtomic, EINVAL, "the segments of an atomic have 8 bytes in all"),
    call(Reason::kTooLong, EINVAL, "longer than max_msg_sz, or for datagrams than active_mtu"),
    call(Reason::kInlineTooLong, EINVAL, "inline data is above the QP's max_inline_data"),

    call(Reason::kBadTransition, EINVAL,
         "there is no such move: a QP goes RESET, INIT, RTR, RTS, one step for each ibv_modify_qp"),
    call(Reason::kMissingAttribute, EINVAL, "attr_mask lacks an attribute that the move needs"),
    call(Reason::kUnexpectedAttribute, EINVAL, "attr_mask has an attribute that the move does not take"),
    call(Reason::kBadValue, EINVAL, "an attribute is out of range"),
    call(Reason::kOtherState, EINVAL, "cur_qp_state is not the state of the QP"),
    call(Reason::kNoPartition, EINVAL, "the port's table has no partition there"),
    call(Reason::kNoAltPartition, EINVAL, "the table of the alternate port has no partition there"),
    call(Reason::kPathArmed, EINVAL, "alt_ah_attr: the alternate path in force is armed"),
    call(Reason::kOtherCells, EINVAL, "the other port has cells of another size"),
    call(Reason::kNoAltPath, EINVAL, "path_mig_state: no alternate path is loaded"),
    call(Reason::kNotRearmed, EINVAL, "path_mig_state: only the peer's rearming makes the path armed"),
    call(Reason::kBoundToPort, EINVAL, "port_num: groups, protocols or QP 1 tie the QP to its port"),
    call(Reason::kNotDrained, EINVAL, "a path changes only once IBV_EVENT_SQ_DRAINED has come"),
};

constexpr bool is_complete() noexcept {
  uint16_t before = 0;
  for (size_t i = 0; i < kRules.size(); ++i) {
    const ReasonRule& rule = kRules[i];
    const bool of_call = rule.reason >= kFirstCallReason;
    if (rule.reason != static_cast<Reason>(i) || rule.text.empty() || rule.cure.empty() != of_call)
      return false;
    if (i != 0 && (of_call ? rule.error == 0 : rule.code <= before)) return false;
    before = rule.code;
  }
  return kRules.size() == static_cast<size_t>(Reason::kCount);
}
static_assert(is_complete(), "each reason has its row, in order, with a code or an errno");

constexpr std::array<std::string_view, static_cast<size_t>(FailedWork::kCount)> kWorkNames{
    "request", "send", "RDMA write", "RDMA read", "atomic", "bind", "invalidate", "registration", "receive"};

/// Short names, of the statuses that occur.
struct StatusName {
  WcStatus status;
  std::string_view name;
};
constexpr std::array kStatusNames{
    StatusName{WcStatus::kSuccess, "success"},
    StatusName{WcStatus::kLocalLength, "local length error"},
    StatusName{WcStatus::kLocalQpOperation, "local QP operation error"},
    StatusName{WcStatus::kLocalEecOperation, "local EE context operation error"},
    StatusName{WcStatus::kLocalProtection, "local protection error"},
    StatusName{WcStatus::kFlushed, "work request flushed"},
    StatusName{WcStatus::kMwBind, "memory window bind error"},
    StatusName{WcStatus::kBadResponse, "bad response"},
    StatusName{WcStatus::kLocalAccess, "local access error"},
    StatusName{WcStatus::kRemoteInvalidRequest, "remote invalid request"},
    StatusName{WcStatus::kRemoteAccess, "remote access error"},
    StatusName{WcStatus::kRemoteOperation, "remote operation error"},
    StatusName{WcStatus::kRetryExceeded, "transport retry counter exceeded"},
    StatusName{WcStatus::kRnrRetryExceeded, "RNR retry counter exceeded"},
    StatusName{WcStatus::kRemoteAborted, "remote aborted"},
    StatusName{WcStatus::kFatal, "fatal error"},
    StatusName{WcStatus::kResponseTimeout, "response timeout"},
    StatusName{WcStatus::kGeneral, "general error"},
};

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
  return reason >= Reason::kLocalKeyUnknown && reason <= Reason::kLocalGone;
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

const ReasonRule& rule_of(Reason reason) noexcept {
  return kRules[reason < Reason::kCount ? static_cast<size_t>(reason) : 0];
}

Reason find_reason(uint32_t code) noexcept {
  const auto* const found = std::find_if(kRules.begin(), kRules.end(),
                                         [code](const ReasonRule& rule) { return rule.code == code; });
  return found == kRules.end() ? Reason::kNone : found->reason;
}

std::string_view to_string(Reason reason) noexcept {
  return rule_of(reason).text;
}

int errno_of(Reason reason) noexcept {
  const int error = rule_of(reason).error;
  return reason != Reason::kOk && error == 0 ? EINVAL : error;
}

std::string_view to_string(WcStatus status) noexcept {
  for (const StatusName& entry : kStatusNames) {
    if (entry.status == status) return entry.name;
  }
  return "?";
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
          rule_of(failure.reason).code,
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
  return {.reason = find_reason(static_cast<uint32_t>(value(FailureGauge::kReason))),
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
  const ReasonRule& rule = rule_of(failure.reason);
  const std::string status =
      failure.status == 0 ? std::string() : fmt::format(": {}", completion_status_text(failure.status));
  const bool known = failure.reason != Reason::kNone;
  return fmt::format("{}{}, vendor_err {:#x}: {}{}{}; {}", subject_of(failure), status, rule.code,
                     known ? rule.text : "?", place_of(failure), numbers_of(failure),
                     known ? rule.cure : "?");
}

}  // namespace weft
