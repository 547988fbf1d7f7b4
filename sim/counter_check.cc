#include "sim/counter_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "adapter/counters.h"
#include "adapter/port.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_counters.h"
#include "fabric/switch/port.h"
#include "host_driver/host_netdev.h"
#include "iou_driver/iou_netdev.h"
#include "session/session_counters.h"

namespace weft::sim {
namespace {

/// Counters that move only if a peer breaks the rules or by a bug.
template <class E>
constexpr std::array<E, 0> kNeverMoves{};
/// Counters that also move if a peer writes with a key that was just revoked.
template <class E>
constexpr std::array<E, 0> kByRevokedKeys{};
/// Counters that also move by faults.
template <class E>
constexpr std::array<E, 0> kNotInPeace{};

using Session = session::SessionCounter;
template <>
constexpr std::array kNeverMoves<Session>{
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

using Acceptor = session::AcceptorCounter;
template <>
constexpr std::array kNeverMoves<Acceptor>{
    Acceptor::kMalformed,       Acceptor::kRefusedVersion,     Acceptor::kRefusedEncoding,
    Acceptor::kRefusedMode,     Acceptor::kRefusedIdataFormat, Acceptor::kRefusedFrameBytes,
    Acceptor::kRefusedMacTaken, Acceptor::kRefusedFull,        Acceptor::kRefusedMemory,
    Acceptor::kRefusedRate,     Acceptor::kRefusedPolicy};
template <>
constexpr std::array kNotInPeace<Acceptor>{Acceptor::kRepeated, Acceptor::kUnknownSession,
                                           Acceptor::kUnknownMessage};

using Adapter = adapter::AdapterCounter;
template <>
constexpr std::array kNeverMoves<Adapter>{
    Adapter::kDropOtherLid, Adapter::kDropPortInactive, Adapter::kDropQkey,      Adapter::kDropService,
    Adapter::kDropSegment,  Adapter::kDropLength,       Adapter::kDropRdContext, Adapter::kCqOverruns};
template <>
constexpr std::array kByRevokedKeys<Adapter>{Adapter::kDropAccess};
template <>
constexpr std::array kNotInPeace<Adapter>{Adapter::kDropQpState, Adapter::kDropSource,
                                          Adapter::kDropNoRecvWqe, Adapter::kStashFull, Adapter::kQpErrors};

using Port = adapter::AdapterPortCounter;
template <>
constexpr std::array kNeverMoves<Port>{Port::kBadCells};
template <>
constexpr std::array kNotInPeace<Port>{Port::kDowns, Port::kExpired};

template <>
constexpr std::array kNeverMoves<adapter::QpCounter>{adapter::QpCounter::kProtocolViolations,
                                                     adapter::QpCounter::kBeyondWindow,
                                                     adapter::QpCounter::kPacketCrcErrors};
template <>
constexpr std::array kByRevokedKeys<adapter::QpCounter>{adapter::QpCounter::kAccessRefused};
template <>
constexpr std::array kNotInPeace<adapter::QpCounter>{
    adapter::QpCounter::kTimeouts,        adapter::QpCounter::kGapsSeen,
    adapter::QpCounter::kCellsStashed,    adapter::QpCounter::kMissedPackets,
    adapter::QpCounter::kRequestsRefused, adapter::QpCounter::kReadsNotRepeated};

template <>
constexpr std::array kNeverMoves<CellError>{
    CellError::kTooShort, CellError::kVersion,    CellError::kReserved,
    CellError::kAddress,  CellError::kOpcode,     CellError::kFlags,
    CellError::kLength,   CellError::kCellNumber, CellError::kCrc};
template <>
constexpr std::array kNeverMoves<adapter::AccessFault>{
    adapter::AccessFault::kBadFlags, adapter::AccessFault::kNoRoom, adapter::AccessFault::kNotMapped,
    adapter::AccessFault::kWrongQp};
template <>
constexpr std::array kByRevokedKeys<adapter::AccessFault>{
    adapter::AccessFault::kNotValid,     adapter::AccessFault::kWrongType,
    adapter::AccessFault::kWrongPd,      adapter::AccessFault::kWrongInstance,
    adapter::AccessFault::kOutOfBounds,  adapter::AccessFault::kRightMissing,
    adapter::AccessFault::kNoWindowBind, adapter::AccessFault::kAlreadyBound};

using Host = host::HostCounter;
template <>
constexpr std::array kNeverMoves<Host>{Host::kBadVnetHeader,  Host::kOsRefused,       Host::kOsDown,
                                       Host::kReadRefused,    Host::kUnknownRequests, Host::kBadRequests,
                                       Host::kOsOffloadErrors};
template <>
constexpr std::array kNeverMoves<host::ControllerCounter>{host::ControllerCounter::kFailed,
                                                          host::ControllerCounter::kBadReply};
template <>
constexpr std::array kNotInPeace<host::ControllerCounter>{host::ControllerCounter::kTimedOut};
template <>
constexpr std::array kNeverMoves<iou::ConfigCounter>{
    iou::ConfigCounter::kUnknown, iou::ConfigCounter::kBadData, iou::ConfigCounter::kMacTaken,
    iou::ConfigCounter::kNicRefused};

using Unit = iou::UnitCounter;
template <>
constexpr std::array kNeverMoves<Unit>{
    Unit::kBadVnetHeader,   Unit::kGroupSource,     Unit::kTooLongForMtu,    Unit::kNicRefused,
    Unit::kNicDown,         Unit::kLanReadRefused,  Unit::kLanBadVnetHeader, Unit::kUncuttableForHost,
    Unit::kHostsRefusedMac, Unit::kNicOffloadErrors};

using Wire = fabric::LinkCounter;
template <>
constexpr std::array kNeverMoves<Wire>{
    Wire::kTooShort,          Wire::kBadKind,       Wire::kBadReserved,   Wire::kBadLane,
    Wire::kBadFlags,          Wire::kBadFraming,    Wire::kAckBeyondSent, Wire::kCreditBeyondSent,
    Wire::kSentWithoutCredit, Wire::kCarrierFaults, Wire::kTornCells};
template <>
constexpr std::array kNotInPeace<Wire>{
    Wire::kBadLength,  Wire::kRepeatsRequested, Wire::kDuplicates,  Wire::kOutOfSequence,   Wire::kBadCrc,
    Wire::kBadCellCrc, Wire::kPeerGone,         Wire::kPeerStalled, Wire::kFlitsLostAtReset};

using CellPortError = fabric::CellPortCounter;
template <>
constexpr std::array kNeverMoves<CellPortError>{CellPortError::kTooShort, CellPortError::kTooLong,
                                                CellPortError::kBadCrc};
template <>
constexpr std::array kNotInPeace<CellPortError>{CellPortError::kPoisoned, CellPortError::kUnfinishedAtReset};

using Drop = fabric::SwitchPortCounter;
template <>
constexpr std::array kNeverMoves<Drop>{
    Drop::kDropTooShort,      Drop::kDropVersion,       Drop::kDropAddress,        Drop::kDropLaneMismatch,
    Drop::kDropForeignSource, Drop::kDropForeignSubnet, Drop::kDropReversePath,    Drop::kDropNoRoute,
    Drop::kDropNoLane,        Drop::kDropLoop,          Drop::kDropManagementFull, Drop::kDropManagementRate,
    Drop::kDropGsiRate,       Drop::kDropTooLong};
template <>
constexpr std::array kNotInPeace<Drop>{Drop::kPoisonOut,    Drop::kDropPortDown,  Drop::kDropStandstill,
                                       Drop::kDropLifetime, Drop::kDropLinkReset, Drop::kDropPoisoned};

template <class E>
void list(const CounterSet<E>& counters, std::span<const E> forbidden, std::string& out) {
  for (const E counter : forbidden) {
    if (counters.get(counter) == 0) continue;
    out += fmt::format(" {} {}", CounterSet<E>::label(counter), counters.get(counter));
  }
}

}  // namespace

/// A raw pair whose receiver has no WQE makes its peer send again, even without faults.
CounterCheck::CounterCheck(const WorldPlan& plan, FlowLedger& ledger, FaultEffects& effects) noexcept
    : ledger_(ledger),
      effects_(effects),
      peaceful_(plan.faultless() && plan.raw_pairs.empty()),
      keys_end_early_(std::any_of(plan.raw_pairs.begin(), plan.raw_pairs.end(), [&](const RawPairPlan& pair) {
        // A write that counts as lost may still arrive late.
        const bool late = pair.type == adapter::QpType::kUc && pair.verbs.windows && !plan.faultless();
        return pair.verbs.revokes || pair.verbs.takes_memory || late;
      })) {}

template <class E>
void CounterCheck::check(std::string_view owner, const CounterSet<E>& counters, Instant now) {
  effects_.add(counters);
  std::string moved;
  list<E>(counters, kNeverMoves<E>, moved);
  if (!keys_end_early_) list<E>(counters, kByRevokedKeys<E>, moved);
  if (peaceful_) list<E>(counters, kNotInPeace<E>, moved);
  if (!moved.empty())
    ledger_.violation(now, fmt::format("{} counts what honest nodes never cause:{}", owner, moved));
}

template void CounterCheck::check(std::string_view, const CounterSet<session::SessionCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<session::AcceptorCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<adapter::AdapterCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<adapter::AdapterPortCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<adapter::QpCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<CellError>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<adapter::AccessFault>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<host::HostCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<host::ControllerCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<iou::ConfigCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<iou::UnitCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<fabric::LinkCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<fabric::CellPortCounter>&, Instant);
template void CounterCheck::check(std::string_view, const CounterSet<fabric::SwitchPortCounter>&, Instant);

}  // namespace weft::sim
