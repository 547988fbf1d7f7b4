// rdma_cm/connection.h -- one connection in InfiniBand's communication manager, and the events for its user.
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
  kClosed,  // no more events will follow; waits for destroy()
};

/// Events for the user of a connection.
enum class CmEventKind : uint8_t {
  kReply,         // REP: to be answered by establish() or reject()
  kEstablished,   // RTU
  kRejected,      // REJ
  kUnreachable,   // no answer to REQ, REP or SIDR_REQ
  kDisconnected,  // DREQ, the end of our own DREQ, or the end of the peer's process
  kUnanswered,    // no answer to our DREQ; counts as disconnected
  kTimewaitExit,
  kSidrReply,
};

/// Deadlines with the local number of their connection.
using CmTimers = std::set<std::pair<Instant, uint32_t>>;

struct Connection {
  CmState state = CmState::kClosed;
  uint32_t local_id = 0;
  uint32_t remote_id = 0;
  Lid peer{};
  bool passive = false;                  // the peer sent the request
  bool datagrams = false;                // SIDR
  bool watched = false;                  // the peer watch asks for the peer's process
  uint64_t process = 0;                  // incarnation of the peer's process; 0: not known yet
  Connection* watched_before = nullptr;  // in the list of the peer's watched connections
  Connection* watched_after = nullptr;
  void* user = nullptr;  // null: events are dropped
  uint32_t own_qpn = 0;
  uint32_t peer_qpn = 0;
  CmMad last{};         // the message that we repeat, or that answers the peer's repeats
  uint32_t tries = 0;   // repeats of `last`
  bool waits = false;   // an MRA has come since `last` was sent
  bool parted = false;  // the user was told DISCONNECTED, so TIMEWAIT_EXIT follows
  Instant deadline = kNever;
  CmTimers::node_type timer{};  // the node while no timer runs, so that setting one needs no memory
};

using management::MadPort;

/// What the user does with a request.
enum class RequestAnswer : uint8_t {
  kTaken,       // `connection.user` is set, and accept(), reject() or answer() will follow
  kNoListener,  // rejected: no program listens there
  kRefused,     // rejected: the listener is not for this request
  kLater,       // no room at present. A REQ gets no answer, so the peer repeats it; a SIDR_REQ is refused
};

/// The user of the connections. Called within receive() and poll(); must not destroy connections there.
class CmUser {
 public:
  virtual ~CmUser() = default;
  /// The transaction number of a request that connection `local_id` sends.
  [[nodiscard]] virtual uint64_t transaction_of(CmAttribute request, uint32_t local_id) noexcept = 0;
  // A REQ or SIDR_REQ.
  [[nodiscard]] virtual RequestAnswer on_request(Connection& connection, const CmReq& req) noexcept = 0;
  [[nodiscard]] virtual RequestAnswer on_sidr_request(Connection& connection,
                                                      const CmSidrReq& req) noexcept = 0;
  /// `message` is the cause of the event: a REP with kReply, a REJ with kRejected, a SIDR_REP with
  /// kSidrReply. It is empty when a timer ended.
  virtual void on_event(Connection& connection, CmEventKind kind, const CmBody& message) noexcept = 0;
  /// `wanted`: one more connection must end with the peer's process; otherwise one less. False: there is no
  /// memory to watch the peer.
  [[nodiscard]] virtual bool on_watch(Lid peer, bool wanted) noexcept = 0;
  /// The peer of a connection with this QP has gone: the requests posted there must complete.
  virtual void on_dead_qp(uint32_t qpn) noexcept = 0;
};

enum class CmCounter : uint8_t {
  kSent,
  kReceived,
  kRepeats,        // messages repeated because no answer came
  kAnsweredAgain,  // answers to repeats of peers
  kTimeouts,
  kPeersGone,  // connections whose peer's process has ended
  kPeerLooks,  // connections that were looked at because of what was heard of their peer
  kSendRefused,
  kMalformed,
  kUnknown,     // no such connection
  kWrongPeer,   // the connection is with another peer
  kWrongState,  // the connection's state does not allow the message
  kNoListener,
  kFalseSource,  // a request names an address as its source that its sender cannot have
  kFull,         // too many connections, or no memory for one more
  kEventsLost,   // no memory for an event of a program
  kCount
};
[[nodiscard]] constexpr CounterNames<CmCounter> counter_labels(CmCounter /*of*/) noexcept {
  return {"sent",        "received",     "repeats",   "answered_again", "timeouts",   "peers_gone",
          "peer_looks",  "send_refused", "malformed", "unknown",        "wrong_peer", "wrong_state",
          "no_listener", "false_source", "full",      "events_lost"};
}

}  // namespace weft::rdma_cm
