// base/reason.h -- why a call was refused, a request failed, or a message of a peer was not accepted.
// messages/failure.h says what follows from each reason: errno, status of the completion, number, text, cure.
#pragma once

#include <cstdint>

namespace weft {

enum class Reason : uint8_t {
  kNone,
  kOk = kNone,  // the answer of a call that was not refused

  // ---- failed requests and refused messages; each has a number (ibv_wc.vendor_err) ----

  // An LKey of a work request (TPT-LOCAL-02).
  kLocalKeyUnknown,
  kLocalKeyOfWindow,
  kLocalWrongPd,
  kLocalKeyOld,
  kLocalOutOfBounds,
  kLocalRightMissing,
  kLocalGone,

  // An RKey in a message of the peer (TPT-REMOTE-02).
  kRemoteKeyUnknown,
  kRemoteKeyOfRegion,
  kRemoteWrongPd,
  kRemoteKeyOld,
  kRemoteOutOfBounds,
  kRemoteRightMissing,
  kRemoteGone,
  kRemoteWrongQp,

  // A bind, an invalidation or a registration by work request.
  kBindKeyUnknown,
  kBindWrongType,
  kBindWrongPd,
  kBindKeyOld,
  kBindOutOfBounds,
  kBindRightMissing,
  kBindNotAllowed,
  kBindBoundAlready,
  kBindBadRights,
  kBindNoRoom,
  kBindNothingStaged,
  kBindWrongQp,

  // The request itself.
  kDatagramTooLong,
  kNoReadsAllowed,
  kNoPacketMemory,
  kNotIpv6,
  kNoRegistration,
  kNoDatagramContext,

  // A negative answer of the peer.
  kPeerRefusesAccess,
  kPeerRefusesRequest,
  kPeerHasNoMemory,
  kPeerHasNoReceive,
  kPeerNeverReceives,
  kPeerCrc,
  kPeerBadResponse,

  // No answer.
  kPeerNeverAnswered,
  kPeerWentSilent,
  kPeerOtherPsn,
  kPortDown,
  kLidChanged,
  kWindowFailed,

  // A message of the peer that this side refuses.
  kUnsupported,
  kQpRightMissing,
  kReadsNotGranted,
  kWrongQkey,
  kWrongSrq,
  kNoReceive,
  kReceiveTooShort,
  kMessageTooLong,
  kMessageCrc,
  kContradiction,
  kMisaligned,

  // Cells of a peer that this side drops, and that the peer repeats.
  kNoSuchQp,
  kQpNotReady,
  kWrongPeer,
  kWrongPsn,
  kWrongPkey,

  // The end of a QP.
  kEndedByProgram,
  kCqOverrun,
  kCellsChanged,
  kSrqDestroyed,

  // ---- refused calls; each has an errno ----

  // A call that makes, changes or ends an object.
  kNoSuchObject,  // no PD, port, domain or other object of this number
  kForeignObject,
  kNoSuchKey,
  kMissingObject,
  kBadSize,
  kBadRange,
  kBadRights,
  kBadAddress,
  kBadOption,
  kNoService,
  kNotOfService,
  kConfined,     // the PD belongs to a user process (SAN-LMP-02)
  kWrongMoment,  // the object is not in a state for the call
  kNotMember,
  kTaken,
  kBusy,
  kTableFull,
  kNoMemory,
  kNoDescriptor,

  // A call that waits or polls, and any call at a wrong place.
  kAgain,  // nothing is there, and the descriptor is O_NONBLOCK; or: succeeds a moment later
  kInterrupted,
  kReentered,  // by a signal handler, which has interrupted another call of its thread on the device
  kForked,     // in a child after fork(): the device belongs to the parent

  // A post.
  kWouldBlock,  // the queue is full; nothing was posted
  kBadState,
  kBadOpcode,      // this service or queue does not have the operation
  kNoDestination,  // PUSH-CHAN-05
  kNoRemoteKey,    // PUSH-RDMAW-01: address or handle missing
  kBadSges,        // none for a request that moves data, or some for one that moves none
  kTooManySges,    // more than the queue was made for
  kBadAtomic,      // the segments of an atomic must have 8 bytes
  kTooLong,        // longer than the service allows (PUSH-CELL-06)
  kInlineTooLong,  // more inline data than the queue was made for

  // A change of a QP.
  kBadTransition,
  kMissingAttribute,
  kUnexpectedAttribute,
  kBadValue,
  kOtherState,
  kNoPartition,
  kNoAltPartition,
  kPathArmed,
  kOtherCells,
  kNoAltPath,
  kNotRearmed,
  kBoundToPort,  // by groups, protocols, or as QP1
  kNotDrained,

  kCount
};

/// The reasons of refused calls are those from this one to the end.
inline constexpr Reason kFirstCallReason = Reason::kNoSuchObject;

}  // namespace weft
