// rdma_cm/connection_manager.h -- InfiniBand's communication manager: states of connections (REQ, REP, RTU,
// DREQ, DREP, with REJ and MRA) and of requests for datagram services (SIDR). Without I/O.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/rng.h"
#include "rdma_cm/connection.h"

namespace weft::rdma_cm {

struct CmTimes {
  Duration response = 134ms;       // time until the first repeat of a message; doubles with each
  Duration response_max = 1072ms;  // longest time between repeats
  uint32_t repeats = 7;
  Duration patience = 68s;  // time that our MRA asks for, and the most that a peer's MRA gets
  Duration timewait = 1s;
};

/// One owner thread, or a lock around it.
class ConnectionManager {
 public:
  static constexpr size_t kConnectionsMax = 65536;

  ConnectionManager(RandomSource& random, MadPort& port, CmUser& user, const CmTimes& times = {}) noexcept
      : random_(random), port_(port), user_(user), times_(times) {}

  // Both calls send `req` and set its connection and transaction numbers. Null when there are kConnectionsMax
  // connections or no memory.
  [[nodiscard]] Connection* request(Instant now, Lid peer, CmReq req, void* user) noexcept;
  [[nodiscard]] Connection* request(Instant now, Lid peer, CmSidrReq req, void* user) noexcept;
  // The following calls return false and do nothing if the connection's state does not allow them.
  /// Sends a REP.
  [[nodiscard]] bool accept(Instant now, Connection& connection, CmRep rep) noexcept;
  /// Sends an RTU.
  [[nodiscard]] bool establish(Instant now, Connection& connection) noexcept;
  [[nodiscard]] bool reject(Instant now, Connection& connection, uint16_t reason,
                            std::span<const std::byte> private_data) noexcept;
  /// Data of the peer came before its RTU, and has the effect of an RTU.
  [[nodiscard]] bool peer_is_there(Connection& connection) noexcept;
  /// Sends a DREQ, or a DREP if the peer has sent DREQ.
  [[nodiscard]] bool disconnect(Instant now, Connection& connection) noexcept;
  /// Sends a SIDR_REP.
  [[nodiscard]] bool answer(Instant now, Connection& connection, CmSidrRep rep) noexcept;
  /// The user no longer needs the connection. The peer is told as its state requires.
  void destroy(Instant now, Connection& connection) noexcept;

  /// Process `incarnation` has the peer's LID: connections with an earlier process have ended.
  void peer_is(Instant now, Lid peer, uint64_t incarnation) noexcept;
  /// No endnode has the peer's LID any more.
  void peer_has_gone(Instant now, Lid peer) noexcept;

  void receive(Instant now, Lid from, const CmMad& mad) noexcept;
  /// Repeats messages and ends connections that are due.
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept {
    return timers_.empty() ? kNever : timers_.begin()->first;
  }
  [[nodiscard]] size_t connections() const noexcept { return by_id_.size(); }
  [[nodiscard]] CounterSet<CmCounter>& counters() noexcept { return counters_; }

 private:
  /// A message with its sender and arrival time.
  struct Arrival {
    Instant now;
    Lid from;
    const CmMad& mad;
  };

  Connection* make(Lid peer) noexcept;
  void forget(Connection& connection) noexcept;
  void count_turned_away(RequestAnswer answer) noexcept;
  void set_timer(Connection& connection, Instant at) noexcept;
  void enter(Connection& connection, CmState state) noexcept;
  void watch(Connection& connection, bool wanted) noexcept;
  [[nodiscard]] bool enter_watched(Connection& connection) noexcept;
  void leave_watched(Connection& connection) noexcept;
  [[nodiscard]] Connection* first_watched(Lid peer) noexcept;
  void end_with_peer(Instant now, Connection& connection) noexcept;
  void send(Lid to, const CmMad& mad) noexcept;
  /// Sends `mad` and repeats it until the state changes.
  void ask(Instant now, Connection& connection, const CmMad& mad, CmState state) noexcept;
  /// Sends `mad`, and keeps it as the answer to later repeats of the peer.
  void tell(Connection& connection, const CmMad& mad, CmState state) noexcept;
  void enter_timewait(Instant now, Connection& connection) noexcept;
  void close(Connection& connection) noexcept;
  void tell_user(Connection& connection, CmEventKind kind, const CmBody& message) noexcept;
  /// Completes a message of this connection, with the transaction of the last one.
  template <class Message>
  [[nodiscard]] CmMad reply(const Connection& connection, Message message) const noexcept;
  [[nodiscard]] CmMad rejection(const Connection& connection, uint16_t reason,
                                std::span<const std::byte> private_data = {}) const noexcept;
  void ask_for_patience(const Connection& connection, uint8_t about) noexcept;

  /// The connection that a message names, if its sender is that connection's peer. @param local  the sender's
  /// number of the connection; 0: not given
  Connection* find(Lid from, uint32_t local, uint32_t remote) noexcept;
  Connection* find_rejected(Lid from, const CmRej& rej) noexcept;
  void on(const Arrival& at, const std::monostate& nothing) noexcept;
  void on(const Arrival& at, const CmReq& req) noexcept;
  void on(const Arrival& at, const CmMra& mra) noexcept;
  void on(const Arrival& at, const CmRej& rej) noexcept;
  void on(const Arrival& at, const CmRep& rep) noexcept;
  void on(const Arrival& at, const CmRtu& rtu) noexcept;
  void on(const Arrival& at, const CmDreq& dreq) noexcept;
  void on(const Arrival& at, const CmDrep& drep) noexcept;
  void on(const Arrival& at, const CmSidrReq& req) noexcept;
  void on(const Arrival& at, const CmSidrRep& rep) noexcept;
  /// Null when the request was answered here, because it is a repeat or there is no room.
  Connection* begin(const Arrival& at, bool datagrams, uint32_t id) noexcept;
  void on_repeated_request(const Arrival& at, Connection& connection) noexcept;
  void expire(Instant now, Connection& connection) noexcept;

  RandomSource& random_;
  MadPort& port_;
  CmUser& user_;
  CmTimes times_;
  std::unordered_map<uint32_t, std::unique_ptr<Connection>> by_id_;
  /// Connections that peers began, by {LID and SIDR bit, the peer's number}.
  std::map<std::pair<uint32_t, uint32_t>, Connection*> by_peer_;
  /// The watched connections of each peer, newest first. Those of which the peer's process is not known yet
  /// come before the others, which all have the same one.
  std::map<Lid, Connection*> watched_;
  CmTimers timers_;
  CounterSet<CmCounter> counters_;
};

}  // namespace weft::rdma_cm
