// rdma_cm/connection.h -- one connection as InfiniBand's communication manager knows it, what its user is
// told, and what carries its datagrams.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/counters.h"
#include "messages/cm_mad.h"
#include "messages/ids.h"

namespace weft::rdma_cm {

enum class CmState : uint8_t {
  kReqSent,
  kReqReceived,
  kRepSent,
  kRepReceived,
  kEstablished,
  kDreqSent,
  kDreqReceived,
  kTimewait,
  kSidrReqSent,
  kSidrReqReceived,
  kClosed,  // nothing more will happen; waits for destroy()
};

/// What the user of a connection is told.
enum class CmEventKind : uint8_t {
  kReply,         // REP: to be answered by establish() or reject()
  kEstablished,   // RTU
  kRejected,      // REJ
  kUnreachable,   // no answer to REQ, REP or SIDR_REQ
  kDisconnected,  // DREQ, the end of our own, or that of the peer's process
  kUnanswered,    // nobody has answered our DREQ, nor anything else for long: as good as disconnected
  kTimewaitExit,
  kSidrReply,
};

/// Reasons of a REJ that we give; numbers of InfiniBand.
inline constexpr uint16_t kRejectTimeout = 4;
inline constexpr uint16_t kRejectInvalidId = 6;
inline constexpr uint16_t kRejectInvalidService = 8;
inline constexpr uint16_t kRejectNoResources = 3;
inline constexpr uint16_t kRejectConsumer = 28;
/// What a REJ or MRA is about.
inline constexpr uint8_t kAboutReq = 0;
inline constexpr uint8_t kAboutRep = 1;
inline constexpr uint8_t kAboutNone = 2;
/// Status of a SIDR_REP.
inline constexpr uint8_t kSidrValid = 0;
inline constexpr uint8_t kSidrNoService = 1;
inline constexpr uint8_t kSidrRefused = 2;

struct Connection {
  CmState state = CmState::kClosed;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Lid peer{};
  bool passive = false;    // the peer asked
  bool datagrams = false;  // SIDR
  bool watched = false;    // whether the peer's process is still there
  uint64_t process = 0;    // its incarnation; 0: not known yet
  void* user = nullptr;    // null: nobody wants to hear of it any more
  uint32_t own_qpn = 0;
  uint32_t peer_qpn = 0;
  CmMad last{};        // what a repeat of the peer is answered with, or what we repeat
  uint32_t tries = 0;  // of `last`
  Instant deadline = kNever;
};

/// Sends datagrams from QP1. False: not now; the datagram is as good as lost.
class MadPort {
 public:
  virtual ~MadPort() = default;
  [[nodiscard]] virtual bool send(Lid to, const MadBytes& mad) noexcept = 0;
  /// To QP1 of every endnode but this one.
  [[nodiscard]] virtual bool flood(const MadBytes& mad) noexcept = 0;
};

/// Whose connections they are. Called within receive() and poll(); may not destroy connections there.
class CmUser {
 public:
  virtual ~CmUser() = default;
  /// A REQ or SIDR_REQ. True: accept(), reject() or answer() will follow, and `connection.user` is set.
  [[nodiscard]] virtual bool on_request(Connection& connection, const CmMad& mad) noexcept = 0;
  /// `mad` is what brought the event; for the end of a timer a message without content.
  virtual void on_event(Connection& connection, CmEventKind kind, const CmMad& mad) noexcept = 0;
  /// One connection more, or less, that lives no longer than the peer's process.
  virtual void on_watch(Lid peer, bool wanted) noexcept = 0;
  /// The peer of a connection with this QP has gone: what is posted there shall complete.
  virtual void on_dead_qp(uint32_t qpn) noexcept = 0;
};

enum class CmCounter : uint8_t {
  kSent,
  kReceived,
  kRepeats,        // of ours, after a time without answer
  kAnsweredAgain,  // repeats of peers
  kTimeouts,
  kPeersGone,  // connections whose peer's process has ended
  kSendRefused,
  kMalformed,
  kUnknown,     // no such connection
  kWrongPeer,   // it is with somebody else
  kWrongState,  // too late or too early for it
  kNoListener,
  kFull,
  kCount
};
[[nodiscard]] constexpr CounterNames<CmCounter> counter_labels(CmCounter /*of*/) noexcept {
  return {"sent",        "received",     "repeats",   "answered_again", "timeouts",
          "peers_gone",  "send_refused", "malformed", "unknown",        "wrong_peer",
          "wrong_state", "no_listener",  "full"};
}

}  // namespace weft::rdma_cm
