#include "sim/conduct.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "channel/counters.h"
#include "channel/session_counters.h"
#include "fabric/link_cell_port.h"
#include "fabric/link_counters.h"
#include "fabric/port.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"

namespace weft::sim {
namespace {

/// Moved only by a peer that breaks the rules, or by a bug.
template <class E>
constexpr std::array<E, 0> kNever{};
/// Moved by faults, too.
template <class E>
constexpr std::array<E, 0> kNotInPeace{};

using Session = SessionCounter;
template <>
constexpr std::array kNever<Session>{
    Session::kFrameTooLong,       Session::kConnectMalformed,  Session::kLostViolation,
    Session::kLostNoMemory,       Session::kMsgTooShort,       Session::kMsgTooLong,
    Session::kMsgUnknownFunction, Session::kMsgWrongVersion,   Session::kMsgLengthMismatch,
    Session::kMsgCountLimit,      Session::kMsgBadValue,       Session::kMsgNotParsed,
    Session::kMsgNotExpected,     Session::kPoolRefUnknown,    Session::kPoolRefTaken,
    Session::kPoolLimit,          Session::kPoolElementRange,  Session::kPoolRenewNotConsumed,
    Session::kFlushUnknownPool,   Session::kFlushReplyUnknown, Session::kIdataPoolUnknown,
    Session::kIdataPoolFlushed,   Session::kIdataElementRange, Session::kIdataElementNotFree,
    Session::kIdataSizeWrong,     Session::kIdataAddressWrong, Session::kIdataTooLong,
    Session::kKeyRefused,         Session::kFrameTooShort,     Session::kCreditOverrun,
    Session::kFlushRepliesDropped};
template <>
constexpr std::array kNotInPeace<Session>{
    Session::kConnectRefused,     Session::kLostSilence,   Session::kLostQpError,         Session::kLostGap,
    Session::kLostPortDown,       Session::kLostReplaced,  Session::kLostForgotten,       Session::kProbesOut,
    Session::kConfigReplyUnknown, Session::kFlushTimedOut, Session::kConfigRepliesDropped};

using Acceptor = AcceptorCounter;
template <>
constexpr std::array kNever<Acceptor>{
    Acceptor::kMalformed,       Acceptor::kRefusedVersion,     Acceptor::kRefusedEncoding,
    Acceptor::kRefusedMode,     Acceptor::kRefusedIdataFormat, Acceptor::kRefusedFrameBytes,
    Acceptor::kRefusedMacTaken, Acceptor::kRefusedFull,        Acceptor::kRefusedMemory,
    Acceptor::kRefusedRate,     Acceptor::kRefusedPolicy};
template <>
constexpr std::array kNotInPeace<Acceptor>{Acceptor::kRepeated, Acceptor::kUnknownSession,
                                           Acceptor::kUnknownMessage};

using Adapter = AdapterCounter;
template <>
constexpr std::array kNever<Adapter>{Adapter::kDropOtherLid,  Adapter::kDropQkey,   Adapter::kDropService,
                                     Adapter::kDropSegment,   Adapter::kDropAccess, Adapter::kDropLength,
                                     Adapter::kDropRdContext, Adapter::kCqOverruns};
template <>
constexpr std::array kNotInPeace<Adapter>{
    Adapter::kDropQpState, Adapter::kDropSource, Adapter::kDropNoRecvWqe, Adapter::kStashFull,
    Adapter::kQpErrors,    Adapter::kPortDowns,  Adapter::kPortExpired};

template <>
constexpr std::array kNever<QpCounter>{QpCounter::kProtocolViolations, QpCounter::kAccessRefused,
                                       QpCounter::kBeyondWindow};
template <>
constexpr std::array kNotInPeace<QpCounter>{QpCounter::kTimeouts, QpCounter::kGapsSeen,
                                            QpCounter::kCellsStashed, QpCounter::kMissedPackets};

template <>
constexpr std::array kNever<CellError>{CellError::kTooShort, CellError::kVersion,    CellError::kReserved,
                                       CellError::kAddress,  CellError::kOpcode,     CellError::kFlags,
                                       CellError::kLength,   CellError::kCellNumber, CellError::kCrc};
template <>
constexpr std::array kNever<AccessFault>{AccessFault::kNotValid,     AccessFault::kWrongType,
                                         AccessFault::kWrongPd,      AccessFault::kWrongInstance,
                                         AccessFault::kOutOfBounds,  AccessFault::kRightMissing,
                                         AccessFault::kNoWindowBind, AccessFault::kAlreadyBound};

using Host = HostCounter;
template <>
constexpr std::array kNever<Host>{Host::kBadVnetHeader,  Host::kOsRefused,       Host::kOsDown,
                                  Host::kReadRefused,    Host::kUnknownRequests, Host::kBadRequests,
                                  Host::kOsOffloadErrors};
template <>
constexpr std::array kNever<ControllerCounter>{ControllerCounter::kFailed, ControllerCounter::kBadReply};
template <>
constexpr std::array kNotInPeace<ControllerCounter>{ControllerCounter::kTimedOut};
template <>
constexpr std::array kNever<ConfigCounter>{ConfigCounter::kUnknown, ConfigCounter::kBadData,
                                           ConfigCounter::kMacTaken, ConfigCounter::kNicRefused};

using Unit = UnitCounter;
template <>
constexpr std::array kNever<Unit>{Unit::kBadVnetHeader,    Unit::kGroupSource,       Unit::kTooLongForMtu,
                                  Unit::kNicRefused,       Unit::kNicDown,           Unit::kLanReadRefused,
                                  Unit::kLanBadVnetHeader, Unit::kUncuttableForHost, Unit::kHostsRefusedMac,
                                  Unit::kNicOffloadErrors};

using Wire = LinkCounter;
template <>
constexpr std::array kNever<Wire>{Wire::kTooShort,      Wire::kBadKind,          Wire::kBadReserved,
                                  Wire::kBadLane,       Wire::kBadFlags,         Wire::kBadFraming,
                                  Wire::kAckBeyondSent, Wire::kCreditBeyondSent, Wire::kSentWithoutCredit,
                                  Wire::kCarrierFaults};
template <>
constexpr std::array kNotInPeace<Wire>{Wire::kBadLength,     Wire::kRepeatsRequested, Wire::kDuplicates,
                                       Wire::kOutOfSequence, Wire::kBadCrc,           Wire::kPeerGone,
                                       Wire::kPeerStalled,   Wire::kFlitsLostAtReset};

using CellPortError = CellPortCounter;
template <>
constexpr std::array kNever<CellPortError>{CellPortError::kTooShort, CellPortError::kTooLong,
                                           CellPortError::kBadCrc};
template <>
constexpr std::array kNotInPeace<CellPortError>{CellPortError::kPoisoned, CellPortError::kUnfinishedAtReset};

using Drop = SwitchPortCounter;
template <>
constexpr std::array kNever<Drop>{
    Drop::kDropTooShort,      Drop::kDropVersion,       Drop::kDropAddress,        Drop::kDropLaneMismatch,
    Drop::kDropForeignSource, Drop::kDropForeignSubnet, Drop::kDropReversePath,    Drop::kDropNoRoute,
    Drop::kDropNoLane,        Drop::kDropLoop,          Drop::kDropManagementFull, Drop::kDropManagementRate,
    Drop::kDropGsiRate,       Drop::kDropTooLong};
template <>
constexpr std::array kNotInPeace<Drop>{Drop::kPoisonOut, Drop::kDropPortDown, Drop::kDropLifetime,
                                       Drop::kDropLinkReset, Drop::kDropPoisoned};

template <class E>
void list(const CounterSet<E>& counters, std::span<const E> forbidden, std::string& out) {
  for (const E counter : forbidden) {
    if (counters.get(counter) == 0) continue;
    out += fmt::format(" {} {}", CounterSet<E>::label(counter), counters.get(counter));
  }
}

}  // namespace

/// A raw pair whose receiver has no WQE makes its peer repeat, in peace too.
Conduct::Conduct(const WorldPlan& plan, FlowLedger& ledger) noexcept
    : ledger_(ledger),
      peaceful_(plan.faults.empty() && plan.cuts.empty() && plan.crashes.empty() && plan.freezes.empty() &&
                plan.raw_pairs.empty()) {}

template <class E>
void Conduct::judge(std::string_view owner, const CounterSet<E>& counters, Instant now) {
  std::string moved;
  list<E>(counters, kNever<E>, moved);
  if (peaceful_) list<E>(counters, kNotInPeace<E>, moved);
  if (!moved.empty())
    ledger_.violation(now, fmt::format("{} counts what honest nodes never cause:{}", owner, moved));
}

template void Conduct::judge(std::string_view, const CounterSet<SessionCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<AcceptorCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<AdapterCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<QpCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<CellError>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<AccessFault>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<HostCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<ControllerCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<ConfigCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<UnitCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<LinkCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<CellPortCounter>&, Instant);
template void Conduct::judge(std::string_view, const CounterSet<SwitchPortCounter>&, Instant);

}  // namespace weft::sim
