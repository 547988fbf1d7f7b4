// How it works. Each side keeps its last message. The side that waits for an answer repeats its message
// (ask()). The side that has answered gives the same answer to each repeat (tell()), so a lost datagram only
// costs time. A connection that its user destroys continues without a user while the peer may still repeat.
// In some states only the peer can end the connection, and no timer of ours does. These are watched: the end
// of the peer's process then ends the connection (peer_watch.h).
#include "rdma_cm/connection_manager.h"

#include <algorithm>

#include "base/out_of_memory.h"
#include "messages/time_code.h"

namespace weft::rdma_cm {
namespace {

std::pair<uint32_t, uint32_t> peer_key(Lid from, bool datagrams, uint32_t id) noexcept {
  return {uint32_t{from.value()} << 1 | uint32_t{datagrams}, id};
}

/// Refuses a REQ or REP that belongs to no connection.
CmMad refusal(uint64_t transaction, uint32_t their_id, uint8_t about, uint16_t reason) noexcept {
  return {.transaction = transaction, .body = CmRej{.remote_id = their_id, .about = about, .reason = reason}};
}

CmMad sidr_refusal(uint64_t transaction, const CmSidrReq& req, uint8_t status) noexcept {
  return {.transaction = transaction,
          .body = CmSidrRep{.request_id = req.request_id, .status = status, .service_id = req.service_id}};
}

}  // namespace

// ---- the user's calls --------------------

Connection* ConnectionManager::request(Instant now, Lid peer, CmReq req, void* user) noexcept {
  Connection* connection = make(peer);
  if (connection == nullptr) return nullptr;
  connection->user = user;
  connection->own_qpn = req.qpn;
  req.local_id = connection->local_id;
  req.local_response_timeout = req.remote_response_timeout = code_of_time(times_.response);
  req.max_retries = static_cast<uint8_t>(std::min(times_.repeats, 15U));
  const uint64_t transaction = user_.transaction_of(CmAttribute::kReq, connection->local_id);
  ask(now, *connection, {.transaction = transaction, .body = req}, CmState::kReqSent);
  return connection;
}

Connection* ConnectionManager::request(Instant now, Lid peer, CmSidrReq req, void* user) noexcept {
  Connection* connection = make(peer);
  if (connection == nullptr) return nullptr;
  connection->user = user;
  connection->datagrams = true;
  req.request_id = connection->local_id;
  const uint64_t transaction = user_.transaction_of(CmAttribute::kSidrReq, connection->local_id);
  ask(now, *connection, {.transaction = transaction, .body = req}, CmState::kSidrReqSent);
  return connection;
}

bool ConnectionManager::accept(Instant now, Connection& connection, CmRep rep) noexcept {
  if (connection.state != CmState::kReqReceived) return false;
  connection.own_qpn = rep.qpn;
  ask(now, connection, reply(connection, rep), CmState::kRepSent);
  return true;
}

bool ConnectionManager::establish(Instant /*now*/, Connection& connection) noexcept {
  if (connection.state != CmState::kRepReceived) return false;
  tell(connection, reply(connection, CmRtu()), CmState::kEstablished);
  return true;
}

bool ConnectionManager::peer_is_there(Connection& connection) noexcept {
  if (connection.state != CmState::kRepSent) return false;
  enter(connection, CmState::kEstablished);
  set_timer(connection, kNever);
  return true;
}

bool ConnectionManager::reject(Instant now, Connection& connection, uint16_t reason,
                               std::span<const std::byte> private_data) noexcept {
  switch (connection.state) {
    case CmState::kReqReceived:
    case CmState::kRepSent:
    case CmState::kRepReceived:
      break;
    case CmState::kReqSent:
    case CmState::kEstablished:
    case CmState::kDreqSent:
    case CmState::kDreqReceived:
    case CmState::kTimewait:
    case CmState::kSidrReqSent:
    case CmState::kSidrReqReceived:
    case CmState::kClosed:
      return false;
  }
  tell(connection, rejection(connection, reason, private_data), connection.state);
  enter_timewait(now, connection);
  return true;
}

bool ConnectionManager::disconnect(Instant now, Connection& connection) noexcept {
  if (connection.state == CmState::kDreqReceived) {
    tell(connection, reply(connection, CmDrep()), CmState::kDreqReceived);
    enter_timewait(now, connection);
    return true;
  }
  if (connection.state != CmState::kEstablished && connection.state != CmState::kRepSent) return false;
  CmMad dreq = reply(connection, CmDreq{.qpn = connection.peer_qpn});
  dreq.transaction = random_.next();
  ask(now, connection, dreq, CmState::kDreqSent);
  return true;
}

bool ConnectionManager::answer(Instant now, Connection& connection, CmSidrRep rep) noexcept {
  if (connection.state != CmState::kSidrReqReceived) return false;
  rep.request_id = connection.remote_id;
  tell(connection, {.transaction = connection.last.transaction, .body = rep}, CmState::kSidrReqReceived);
  enter_timewait(now, connection);
  return true;
}

void ConnectionManager::destroy(Instant now, Connection& connection) noexcept {
  connection.user = nullptr;
  switch (connection.state) {
    case CmState::kReqSent:
      send(connection.peer, rejection(connection, kRejectTimeout));
      return forget(connection);
    case CmState::kReqReceived:
    case CmState::kRepSent:
    case CmState::kRepReceived:
      static_cast<void>(reject(now, connection, kRejectConsumer, {}));
      return;
    case CmState::kEstablished:
    case CmState::kDreqReceived:
      static_cast<void>(disconnect(now, connection));
      return;
    case CmState::kSidrReqReceived:
      static_cast<void>(answer(now, connection, {.status = kSidrRefused}));
      return;
    case CmState::kDreqSent:
    case CmState::kTimewait:
      return;  // its timer ends it
    case CmState::kSidrReqSent:
    case CmState::kClosed:
      return forget(connection);
  }
}

// ---- parts --------------------

Connection* ConnectionManager::make(Lid peer) noexcept {
  if (by_id_.size() >= kConnectionsMax) {
    counters_.add(CmCounter::kFull);
    return nullptr;
  }
  uint32_t id = 0;
  while (id == 0 || by_id_.contains(id)) id = static_cast<uint32_t>(random_.next());
  Connection* connection = nullptr;
  const bool made = with_memory([&] {
    CmTimers timer{{kNever, id}};
    connection = by_id_.emplace(id, std::make_unique<Connection>()).first->second.get();
    connection->timer = timer.extract(timer.begin());
  });
  if (!made) {
    counters_.add(CmCounter::kFull);
    return nullptr;
  }
  connection->local_id = id;
  connection->peer = peer;
  return connection;
}

void ConnectionManager::forget(Connection& connection) noexcept {
  set_timer(connection, kNever);
  watch(connection, false);
  if (connection.passive)
    by_peer_.erase(peer_key(connection.peer, connection.datagrams, connection.remote_id));
  by_id_.erase(connection.local_id);
}

void ConnectionManager::set_timer(Connection& connection, Instant at) noexcept {
  if (connection.deadline != kNever)
    connection.timer = timers_.extract({connection.deadline, connection.local_id});
  connection.deadline = at;
  if (at == kNever) return;
  connection.timer.value() = {at, connection.local_id};
  timers_.insert(std::move(connection.timer));
}

void ConnectionManager::send(Lid to, const CmMad& mad) noexcept {
  counters_.add(port_.send(to, encode_cm(mad)) ? CmCounter::kSent : CmCounter::kSendRefused);
}

void ConnectionManager::ask(Instant now, Connection& connection, const CmMad& mad, CmState state) noexcept {
  connection.last = mad;
  enter(connection, state);
  connection.tries = 0;
  connection.waits = false;
  set_timer(connection, now + times_.response);
  send(connection.peer, mad);
}

void ConnectionManager::tell(Connection& connection, const CmMad& mad, CmState state) noexcept {
  connection.last = mad;
  enter(connection, state);
  set_timer(connection, kNever);
  send(connection.peer, mad);
}

void ConnectionManager::enter(Connection& connection, CmState state) noexcept {
  connection.state = state;
  watch(connection,
        state == CmState::kRepReceived || state == CmState::kEstablished || state == CmState::kDreqSent);
}

void ConnectionManager::watch(Connection& connection, bool wanted) noexcept {
  if (connection.watched == wanted) return;
  if (wanted && !enter_watched(connection)) return;
  const bool done = user_.on_watch(connection.peer, wanted);
  connection.watched = done && wanted;
  if (!connection.watched) leave_watched(connection);
}

/// False without memory.
bool ConnectionManager::enter_watched(Connection& connection) noexcept {
  Connection** first = nullptr;
  if (!with_memory([&] { first = &watched_[connection.peer]; })) return false;
  connection.process = 0;
  connection.watched_before = nullptr;
  connection.watched_after = std::exchange(*first, &connection);
  if (connection.watched_after != nullptr) connection.watched_after->watched_before = &connection;
  return true;
}

void ConnectionManager::leave_watched(Connection& connection) noexcept {
  Connection* after = std::exchange(connection.watched_after, nullptr);
  Connection* before = std::exchange(connection.watched_before, nullptr);
  if (after != nullptr) after->watched_before = before;
  if (before != nullptr) {
    before->watched_after = after;
  } else if (after != nullptr) {
    watched_.find(connection.peer)->second = after;
  } else {
    watched_.erase(connection.peer);
  }
}

void ConnectionManager::enter_timewait(Instant now, Connection& connection) noexcept {
  enter(connection, CmState::kTimewait);
  set_timer(connection, now + times_.timewait);
}

void ConnectionManager::close(Connection& connection) noexcept {
  enter(connection, CmState::kClosed);
  set_timer(connection, kNever);
}

/// Drops events of a connection without a user. Such a connection is freed once it is closed.
void ConnectionManager::tell_user(Connection& connection, CmEventKind kind, const CmBody& message) noexcept {
  connection.parted |= kind == CmEventKind::kDisconnected || kind == CmEventKind::kUnanswered;
  if (connection.user != nullptr) return user_.on_event(connection, kind, message);
  if (connection.state == CmState::kClosed) forget(connection);
}

template <class Message>
CmMad ConnectionManager::reply(const Connection& connection, Message message) const noexcept {
  message.local_id = connection.local_id;
  message.remote_id = connection.remote_id;
  return {.transaction = connection.last.transaction, .body = message};
}

CmMad ConnectionManager::rejection(const Connection& connection, uint16_t reason,
                                   std::span<const std::byte> private_data) const noexcept {
  const bool of_request = connection.state == CmState::kReqReceived;
  const bool of_reply = connection.state == CmState::kRepReceived;
  CmRej rej{.about = of_request ? kAboutReq : of_reply ? kAboutRep : kAboutNone, .reason = reason};
  std::copy_n(private_data.begin(), std::min(private_data.size(), rej.private_data.size()),
              rej.private_data.begin());
  return reply(connection, rej);
}

/// The peer repeats a message about which our user has not decided yet: asks the peer to wait.
void ConnectionManager::ask_for_patience(const Connection& connection, uint8_t about) noexcept {
  counters_.add(CmCounter::kAnsweredAgain);
  send(connection.peer,
       reply(connection, CmMra{.about = about, .service_timeout = code_of_time(times_.patience)}));
}

// ---- messages --------------------

void ConnectionManager::receive(Instant now, Lid from, const CmMad& mad) noexcept {
  counters_.add(CmCounter::kReceived);
  std::visit([&](const auto& message) { on({now, from, mad}, message); }, mad.body);
}

void ConnectionManager::on(const Arrival& /*at*/, const std::monostate& /*nothing*/) noexcept {
  counters_.add(CmCounter::kMalformed);
}

/// A peer may send REJ before it knows our number of the connection.
Connection* ConnectionManager::find_rejected(Lid from, const CmRej& rej) noexcept {
  if (rej.remote_id == 0) {
    const auto asked = by_peer_.find(peer_key(from, false, rej.local_id));
    if (asked != by_peer_.end() && asked->second->state != CmState::kClosed) return asked->second;
  }
  return find(from, rej.local_id, rej.remote_id);
}

/// A connection that is over counts as unknown, though its program may still hold it: so the peer gets the
/// same answer and need not repeat its message.
Connection* ConnectionManager::find(Lid from, uint32_t local, uint32_t remote) noexcept {
  const auto found = by_id_.find(remote);
  if (found == by_id_.end() || found->second->state == CmState::kClosed) {
    counters_.add(CmCounter::kUnknown);
    return nullptr;
  }
  Connection& connection = *found->second;
  const bool named = connection.remote_id == 0 || local == 0 || connection.remote_id == local;
  if (connection.peer != from || !named) {
    counters_.add(CmCounter::kWrongPeer);
    return nullptr;
  }
  return &connection;
}

Connection* ConnectionManager::begin(const Arrival& at, bool datagrams, uint32_t id) noexcept {
  const auto key = peer_key(at.from, datagrams, id);
  const auto known = by_peer_.find(key);
  if (known != by_peer_.end()) {
    on_repeated_request(at, *known->second);
    return nullptr;
  }
  Connection* connection = make(at.from);
  if (connection != nullptr && !with_memory([&] { by_peer_.emplace(key, connection); })) {
    counters_.add(CmCounter::kFull);
    by_id_.erase(std::exchange(connection, nullptr)->local_id);
  }
  if (connection == nullptr) {
    const auto* sidr = std::get_if<CmSidrReq>(&at.mad.body);
    send(at.from, sidr != nullptr ? sidr_refusal(at.mad.transaction, *sidr, kSidrRefused)
                                  : refusal(at.mad.transaction, id, kAboutReq, kRejectNoResources));
    return nullptr;
  }
  connection->passive = true;
  connection->datagrams = datagrams;
  connection->remote_id = id;
  connection->last = at.mad;
  connection->state = datagrams ? CmState::kSidrReqReceived : CmState::kReqReceived;
  return connection;
}

void ConnectionManager::count_turned_away(RequestAnswer answer) noexcept {
  counters_.add(answer == RequestAnswer::kLater ? CmCounter::kFull : CmCounter::kNoListener);
}

void ConnectionManager::on(const Arrival& at, const CmReq& req) noexcept {
  Connection* connection = begin(at, false, req.local_id);
  if (connection == nullptr) return;
  connection->peer_qpn = req.qpn;
  const RequestAnswer answer = user_.on_request(*connection, req);
  if (answer == RequestAnswer::kTaken) return;
  count_turned_away(answer);
  const uint16_t reason = answer == RequestAnswer::kNoListener ? kRejectInvalidService : kRejectConsumer;
  if (answer != RequestAnswer::kLater)
    send(at.from, refusal(at.mad.transaction, req.local_id, kAboutReq, reason));
  forget(*connection);
}

void ConnectionManager::on(const Arrival& at, const CmSidrReq& req) noexcept {
  Connection* connection = begin(at, true, req.request_id);
  if (connection == nullptr) return;
  const RequestAnswer answer = user_.on_sidr_request(*connection, req);
  if (answer == RequestAnswer::kTaken) return;
  count_turned_away(answer);
  const uint8_t status = answer == RequestAnswer::kNoListener ? kSidrNoService : kSidrRefused;
  send(at.from, sidr_refusal(at.mad.transaction, req, status));
  forget(*connection);
}

void ConnectionManager::on_repeated_request(const Arrival& at, Connection& connection) noexcept {
  if (connection.state == CmState::kReqReceived) {
    ask_for_patience(connection, kAboutReq);
  } else if (connection.state == CmState::kRepSent || connection.state == CmState::kTimewait) {
    counters_.add(CmCounter::kAnsweredAgain);
    send(connection.peer, connection.last);
  } else {
    counters_.add(CmCounter::kWrongState);
    if (connection.state != CmState::kClosed || connection.datagrams) return;
    send(connection.peer,
         refusal(at.mad.transaction, connection.remote_id, kAboutReq, kRejectStaleConnection));
  }
}

void ConnectionManager::on(const Arrival& at, const CmRep& rep) noexcept {
  Connection* connection = find(at.from, rep.local_id, rep.remote_id);
  if (connection == nullptr)
    return send(at.from, refusal(at.mad.transaction, rep.local_id, kAboutRep, kRejectInvalidId));
  if (connection->state == CmState::kReqSent) {
    connection->remote_id = rep.local_id;
    connection->peer_qpn = rep.qpn;
    enter(*connection, CmState::kRepReceived);
    set_timer(*connection, kNever);
    return tell_user(*connection, CmEventKind::kReply, at.mad.body);
  }
  if (connection->state == CmState::kRepReceived) return ask_for_patience(*connection, kAboutRep);
  const bool has_answer =
      connection->state == CmState::kEstablished || connection->state == CmState::kTimewait;
  counters_.add(has_answer ? CmCounter::kAnsweredAgain : CmCounter::kWrongState);
  if (has_answer) send(at.from, connection->last);
}

/// A DREQ is answered in every case, even for an unknown connection, so that the peer stops repeating it.
void ConnectionManager::on(const Arrival& at, const CmDreq& dreq) noexcept {
  Connection* connection = find(at.from, dreq.local_id, dreq.remote_id);
  if (connection == nullptr || connection->own_qpn != dreq.qpn) {
    if (connection != nullptr) counters_.add(CmCounter::kWrongPeer);
    return send(at.from, {.transaction = at.mad.transaction,
                          .body = CmDrep{.local_id = dreq.remote_id, .remote_id = dreq.local_id}});
  }
  switch (connection->state) {
    case CmState::kRepSent:
    case CmState::kRepReceived:
    case CmState::kEstablished:
      connection->last = at.mad;
      enter(*connection, CmState::kDreqReceived);
      set_timer(*connection, kNever);
      return tell_user(*connection, CmEventKind::kDisconnected, at.mad.body);
    case CmState::kDreqSent:  // both sides ask: each gets an answer at once, without its user
      connection->last.transaction = at.mad.transaction;
      tell(*connection, reply(*connection, CmDrep()), CmState::kDreqSent);
      enter_timewait(at.now, *connection);
      return tell_user(*connection, CmEventKind::kDisconnected, at.mad.body);
    case CmState::kTimewait:
      counters_.add(CmCounter::kAnsweredAgain);
      connection->last.transaction = at.mad.transaction;
      return send(at.from, reply(*connection, CmDrep()));
    case CmState::kReqSent:
    case CmState::kReqReceived:
    case CmState::kDreqReceived:  // answered when the user has decided
    case CmState::kSidrReqSent:
    case CmState::kSidrReqReceived:
    case CmState::kClosed:
      break;
  }
  counters_.add(CmCounter::kWrongState);
}

void ConnectionManager::on(const Arrival& at, const CmRtu& rtu) noexcept {
  Connection* connection = find(at.from, rtu.local_id, rtu.remote_id);
  if (connection == nullptr) return;
  if (connection->state != CmState::kRepSent) return counters_.add(CmCounter::kWrongState);
  enter(*connection, CmState::kEstablished);
  set_timer(*connection, kNever);
  tell_user(*connection, CmEventKind::kEstablished, at.mad.body);
}

void ConnectionManager::on(const Arrival& at, const CmDrep& drep) noexcept {
  Connection* connection = find(at.from, drep.local_id, drep.remote_id);
  if (connection == nullptr) return;
  if (connection->state != CmState::kDreqSent) return counters_.add(CmCounter::kWrongState);
  enter_timewait(at.now, *connection);
  tell_user(*connection, CmEventKind::kDisconnected, at.mad.body);
}

void ConnectionManager::on(const Arrival& at, const CmSidrRep& rep) noexcept {
  Connection* connection = find(at.from, 0, rep.request_id);
  if (connection == nullptr) return;
  if (connection->state != CmState::kSidrReqSent) return counters_.add(CmCounter::kWrongState);
  close(*connection);
  tell_user(*connection, CmEventKind::kSidrReply, at.mad.body);
}

/// Each message of ours gets one wait, so that a peer cannot keep a connection from its end.
void ConnectionManager::on(const Arrival& at, const CmMra& mra) noexcept {
  Connection* connection = find(at.from, mra.local_id, mra.remote_id);
  if (connection == nullptr) return;
  const bool expected = (connection->state == CmState::kReqSent && mra.about == kAboutReq) ||
                        (connection->state == CmState::kRepSent && mra.about == kAboutRep);
  if (!expected || std::exchange(connection->waits, true)) return counters_.add(CmCounter::kWrongState);
  watch(*connection, true);  // the peer's program may take long, but its process must not end
  const Duration asked_for = time_of_code(mra.service_timeout);
  set_timer(*connection, at.now + std::min(asked_for, times_.patience) + times_.response);
}

void ConnectionManager::on(const Arrival& at, const CmRej& rej) noexcept {
  Connection* connection = find_rejected(at.from, rej);
  if (connection == nullptr) return;
  switch (connection->state) {
    case CmState::kReqSent:
    case CmState::kReqReceived:
    case CmState::kRepSent:
    case CmState::kRepReceived:
    case CmState::kEstablished:  // the peer rejected it, or gave up, before our RTU came
    case CmState::kDreqSent:
      close(*connection);
      return tell_user(*connection, CmEventKind::kRejected, at.mad.body);
    case CmState::kDreqReceived:
    case CmState::kTimewait:
    case CmState::kSidrReqSent:
    case CmState::kSidrReqReceived:
    case CmState::kClosed:
      break;
  }
  counters_.add(CmCounter::kWrongState);
}

// ---- the end of a peer --------------------

/// Looks only at connections that become known or end: behind the first one that has this process already
/// there are no others.
void ConnectionManager::peer_is(Instant now, Lid peer, uint64_t incarnation) noexcept {
  for (Connection* next = first_watched(peer); next != nullptr;) {
    Connection& connection = *next;
    next = connection.watched_after;
    counters_.add(CmCounter::kPeerLooks);
    if (connection.process == incarnation) return;
    if (connection.process == 0) {
      connection.process = incarnation;
    } else {
      end_with_peer(now, connection);
    }
  }
}

void ConnectionManager::peer_has_gone(Instant now, Lid peer) noexcept {
  for (Connection* next = first_watched(peer); next != nullptr;) {
    Connection& connection = *next;
    next = connection.watched_after;
    counters_.add(CmCounter::kPeerLooks);
    end_with_peer(now, connection);
  }
}

Connection* ConnectionManager::first_watched(Lid peer) noexcept {
  const auto found = watched_.find(peer);
  return found != watched_.end() ? found->second : nullptr;
}

/// May forget the connection.
void ConnectionManager::end_with_peer(Instant now, Connection& connection) noexcept {
  const CmBody nothing;
  counters_.add(CmCounter::kPeersGone);
  user_.on_dead_qp(connection.own_qpn);
  if (connection.state == CmState::kEstablished || connection.state == CmState::kDreqSent) {
    enter_timewait(now, connection);
    return tell_user(connection, CmEventKind::kDisconnected, nothing);
  }
  close(connection);
  tell_user(connection, CmEventKind::kUnreachable, nothing);
}

// ---- time --------------------

void ConnectionManager::poll(Instant now) noexcept {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    expire(now, *by_id_.find(timers_.begin()->second)->second);
  }
}

void ConnectionManager::expire(Instant now, Connection& connection) noexcept {
  const CmBody nothing;
  if (connection.state == CmState::kTimewait) {
    close(connection);
    if (connection.parted) return tell_user(connection, CmEventKind::kTimewaitExit, nothing);
    if (connection.user == nullptr) forget(connection);
    return;
  }
  if (connection.tries < times_.repeats) {
    ++connection.tries;
    connection.waits = false;
    counters_.add(CmCounter::kRepeats);
    send(connection.peer, connection.last);
    return set_timer(connection,
                     now + std::min(times_.response * (int64_t{1} << connection.tries), times_.response_max));
  }
  counters_.add(CmCounter::kTimeouts);
  if (connection.state == CmState::kDreqSent) {
    enter_timewait(now, connection);
    return tell_user(connection, CmEventKind::kUnanswered, nothing);
  }
  if (connection.state != CmState::kSidrReqSent) send(connection.peer, rejection(connection, kRejectTimeout));
  close(connection);
  tell_user(connection, CmEventKind::kUnreachable, nothing);
}

}  // namespace weft::rdma_cm
