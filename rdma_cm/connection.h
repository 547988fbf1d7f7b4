// rdma_cm/connection.h -- one connection as InfiniBand's communication manager knows it, and what its
// user is told.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "management/mad_port.h"
#include "messages/ids.h"
#include "messages/mad/cm.h"

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
  kUnanswered,    // no answer to our DREQ, nor any other message for long: as good as disconnected
  kTimewaitExit,
  kSidrReply,
};

/// When something is due, and of which connection (its local number).
using CmTimers = std::set<std::pair<Instant, uint32_t>>;

struct Connection {
  CmState state = CmState::kClosed;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Lid peer{};
  bool passive = false;    // the peer asked
  bool datagrams = false;  // SIDR
  bool watched = false;    // whether the peer's process is still there
  uint64_t process = 0;    // its incarnation; 0: not known yet
  void* user = nullptr;    // null: events are dropped
  uint32_t own_qpn = 0;
  uint32_t peer_qpn = 0;
  CmMad last{};        // what a repeat of the peer is answered with, or what we repeat
  uint32_t tries = 0;  // of `last`
  Instant deadline = kNever;
  CmTimers::node_type timer{};  // while none runs, so that setting one takes no memory
};

using management::MadPort;

/// Whose connections they are. Called within receive() and poll(); may not destroy connections there.
class CmUser {
 public:
  virtual ~CmUser() = default;
  // A REQ or SIDR_REQ. True: accept(), reject() or answer() will follow, and `connection.user` is set.
  [[nodiscard]] virtual bool on_request(Connection& connection, const CmReq& req) noexcept = 0;
  [[nodiscard]] virtual bool on_sidr_request(Connection& connection, const CmSidrReq& req) noexcept = 0;
  /// `message` is what brought the event: a REP with kReply, a REJ with kRejected, a SIDR_REP with
  /// kSidrReply; none at the end of a timer.
  virtual void on_event(Connection& connection, CmEventKind kind, const CmBody& message) noexcept = 0;
  /// One connection more, or less, that lives no longer than the peer's process. False: there is no memory
  /// to watch one more.
  [[nodiscard]] virtual bool on_watch(Lid peer, bool wanted) noexcept = 0;
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
  kWrongPeer,   // it is with another peer
  kWrongState,  // too late or too early for it
  kNoListener,
  kFull,        // too many connections, or no memory for one more
  kEventsLost,  // no memory for an event of a program
  kCount
};
[[nodiscard]] constexpr CounterNames<CmCounter> counter_labels(CmCounter /*of*/) noexcept {
  return {"sent",        "received",     "repeats",   "answered_again", "timeouts",
          "peers_gone",  "send_refused", "malformed", "unknown",        "wrong_peer",
          "wrong_state", "no_listener",  "full",      "events_lost"};
}

}  // namespace weft::rdma_cm
