// How it works. Each side keeps what it sent last. Who waits for an answer repeats it (ask()); who has
// answered gives the same answer to each repeat of the peer (tell()), so a lost datagram costs time only. A
// connection that its user destroys lives on without a user while the peer may still repeat. States in which
// only the peer can end the connection, and no timer of ours does, are watched: for them the end of the
// peer's process is the end (peer_watch.h).
#include "rdma_cm/connection_manager.h"

#include <algorithm>
#include <vector>

#include "messages/time_code.h"

namespace weft::rdma_cm {
namespace {

std::pair<uint32_t, uint32_t> peer_key(Lid from, bool datagrams, uint32_t id) noexcept {
  return {uint32_t{from.value()} << 1 | uint32_t{datagrams}, id};
}

}  // namespace

// ---- the user's calls --------------------

Connection* ConnectionManager::request(Instant now, Lid peer, CmMad req, void* user) noexcept {
  Connection* connection = make(peer);
  if (connection == nullptr) return nullptr;
  connection->user = user;
  connection->datagrams = req.kind == MadKind::kSidrReq;
  connection->own_qpn = req.qpn;
  req.local_id = connection->local_id;
  req.transaction = random_.next();
  if (!connection->datagrams) {
    req.local_response_timeout = req.remote_response_timeout = code_of_time(times_.response);
    req.max_retries = static_cast<uint8_t>(std::min(times_.repeats, 15U));
  }
  ask(now, *connection, req, connection->datagrams ? CmState::kSidrReqSent : CmState::kReqSent);
  return connection;
}

bool ConnectionManager::accept(Instant now, Connection& connection, CmMad rep) noexcept {
  if (connection.state != CmState::kReqReceived) return false;
  const CmMad frame = reply_to(connection, MadKind::kRep);
  rep.kind = frame.kind;
  rep.transaction = frame.transaction;
  rep.local_id = frame.local_id;
  rep.remote_id = frame.remote_id;
  connection.own_qpn = rep.qpn;
  ask(now, connection, rep, CmState::kRepSent);
  return true;
}

bool ConnectionManager::establish(Instant /*now*/, Connection& connection) noexcept {
  if (connection.state != CmState::kRepReceived) return false;
  tell(connection, reply_to(connection, MadKind::kRtu), CmState::kEstablished);
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
  CmMad rej = rejection(connection, reason);
  std::copy_n(private_data.begin(), std::min(private_data.size(), private_bytes(MadKind::kRej)),
              rej.private_data.begin());
  tell(connection, rej, connection.state);
  enter_timewait(now, connection);
  return true;
}

bool ConnectionManager::disconnect(Instant now, Connection& connection) noexcept {
  if (connection.state == CmState::kDreqReceived) {
    tell(connection, reply_to(connection, MadKind::kDrep), CmState::kDreqReceived);
    enter_timewait(now, connection);
    return true;
  }
  if (connection.state != CmState::kEstablished && connection.state != CmState::kRepSent) return false;
  CmMad dreq = reply_to(connection, MadKind::kDreq);
  dreq.transaction = random_.next();
  dreq.qpn = connection.peer_qpn;
  ask(now, connection, dreq, CmState::kDreqSent);
  return true;
}

bool ConnectionManager::answer(Instant now, Connection& connection, CmMad rep) noexcept {
  if (connection.state != CmState::kSidrReqReceived) return false;
  rep.kind = MadKind::kSidrRep;
  rep.transaction = connection.last.transaction;
  rep.local_id = connection.remote_id;
  tell(connection, rep, CmState::kSidrReqReceived);
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
      return;  // ends by its timer
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
  auto connection = std::make_unique<Connection>();
  connection->local_id = id;
  connection->peer = peer;
  return by_id_.emplace(id, std::move(connection)).first->second.get();
}

void ConnectionManager::forget(Connection& connection) noexcept {
  set_timer(connection, kNever);
  watch(connection, false);
  if (connection.passive)
    by_peer_.erase(peer_key(connection.peer, connection.datagrams, connection.remote_id));
  by_id_.erase(connection.local_id);
}

void ConnectionManager::set_timer(Connection& connection, Instant at) noexcept {
  if (connection.deadline != kNever) timers_.erase({connection.deadline, connection.local_id});
  connection.deadline = at;
  if (at != kNever) timers_.emplace(at, connection.local_id);
}

void ConnectionManager::send(Lid to, const CmMad& mad) noexcept {
  counters_.add(port_.send(to, encode_mad(mad)) ? CmCounter::kSent : CmCounter::kSendRefused);
}

void ConnectionManager::ask(Instant now, Connection& connection, const CmMad& mad, CmState state) noexcept {
  connection.last = mad;
  enter(connection, state);
  connection.tries = 0;
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
  connection.watched = wanted;
  user_.on_watch(connection.peer, wanted);
}

void ConnectionManager::enter_timewait(Instant now, Connection& connection) noexcept {
  enter(connection, CmState::kTimewait);
  set_timer(connection, now + times_.timewait);
}

void ConnectionManager::close(Connection& connection) noexcept {
  enter(connection, CmState::kClosed);
  set_timer(connection, kNever);
}

/// Events of a connection without a user are nobody's; once it is closed it goes.
void ConnectionManager::tell_user(Connection& connection, CmEventKind kind, const CmMad& mad) noexcept {
  if (connection.user != nullptr) return user_.on_event(connection, kind, mad);
  if (connection.state == CmState::kClosed) forget(connection);
}

CmMad ConnectionManager::reply_to(const Connection& connection, MadKind kind) const noexcept {
  return {.kind = kind,
          .transaction = connection.last.transaction,
          .local_id = connection.local_id,
          .remote_id = connection.remote_id};
}

CmMad ConnectionManager::rejection(const Connection& connection, uint16_t reason) const noexcept {
  CmMad rej = reply_to(connection, MadKind::kRej);
  const bool of_request = connection.state == CmState::kReqReceived;
  const bool of_reply = connection.state == CmState::kRepReceived;
  rej.about = of_request ? kAboutReq : of_reply ? kAboutRep : kAboutNone;
  rej.reason = reason;
  return rej;
}

/// The peer repeats what our user has not decided yet.
void ConnectionManager::ask_for_patience(const Connection& connection, uint8_t about) noexcept {
  CmMad mra = reply_to(connection, MadKind::kMra);
  mra.about = about;
  mra.service_timeout = code_of_time(times_.patience);
  counters_.add(CmCounter::kAnsweredAgain);
  send(connection.peer, mra);
}

/// Refuses a message that belongs to no connection.
void ConnectionManager::refuse(Lid to, const CmMad& request, uint16_t reason) noexcept {
  if (request.kind == MadKind::kSidrReq) {
    return send(to, {.kind = MadKind::kSidrRep,
                     .transaction = request.transaction,
                     .local_id = request.local_id,
                     .service_id = request.service_id,
                     .status = reason == kRejectInvalidService ? kSidrNoService : kSidrRefused});
  }
  send(to, {.kind = MadKind::kRej,
            .transaction = request.transaction,
            .remote_id = request.local_id,
            .about = request.kind == MadKind::kReq ? kAboutReq : kAboutRep,
            .reason = reason});
}

// ---- messages --------------------

void ConnectionManager::receive(Instant now, Lid from, const CmMad& mad) noexcept {
  counters_.add(CmCounter::kReceived);
  switch (mad.kind) {
    case MadKind::kReq:
    case MadKind::kSidrReq:
      return on_request(now, from, mad);
    case MadKind::kRep:
      return on_rep(now, from, mad);
    case MadKind::kDreq:
      return on_dreq(now, from, mad);
    case MadKind::kMra:
    case MadKind::kRej:
    case MadKind::kRtu:
    case MadKind::kDrep:
    case MadKind::kSidrRep:
      if (Connection* connection = find(from, mad)) on_known(now, *connection, mad);
      return;
    case MadKind::kWhoHas:
    case MadKind::kHas:
    case MadKind::kWhoIsThere:
    case MadKind::kIsThere:
      break;
  }
  counters_.add(CmCounter::kMalformed);
}

/// A REJ may come from somebody who gives up before it knew our number.
Connection* ConnectionManager::find(Lid from, const CmMad& mad) noexcept {
  if (mad.kind == MadKind::kRej && mad.remote_id == 0) {
    const auto asked = by_peer_.find(peer_key(from, false, mad.local_id));
    if (asked != by_peer_.end()) return asked->second;
  }
  const auto found = by_id_.find(mad.kind == MadKind::kSidrRep ? mad.local_id : mad.remote_id);
  if (found == by_id_.end()) {
    counters_.add(CmCounter::kUnknown);
    return nullptr;
  }
  Connection& connection = *found->second;
  const bool named = mad.kind == MadKind::kSidrRep || connection.remote_id == 0 || mad.local_id == 0 ||
                     connection.remote_id == mad.local_id;
  if (connection.peer != from || !named) {
    counters_.add(CmCounter::kWrongPeer);
    return nullptr;
  }
  return &connection;
}

void ConnectionManager::on_request(Instant /*now*/, Lid from, const CmMad& mad) noexcept {
  const bool datagrams = mad.kind == MadKind::kSidrReq;
  const auto known = by_peer_.find(peer_key(from, datagrams, mad.local_id));
  if (known != by_peer_.end()) return on_repeated_request(*known->second);
  Connection* connection = make(from);
  if (connection == nullptr) return refuse(from, mad, kRejectNoResources);
  connection->passive = true;
  connection->datagrams = datagrams;
  connection->remote_id = mad.local_id;
  connection->peer_qpn = mad.qpn;
  connection->last = mad;
  connection->state = datagrams ? CmState::kSidrReqReceived : CmState::kReqReceived;
  by_peer_.emplace(peer_key(from, datagrams, mad.local_id), connection);
  if (user_.on_request(*connection, mad)) return;
  counters_.add(CmCounter::kNoListener);
  refuse(from, mad, kRejectInvalidService);
  forget(*connection);
}

void ConnectionManager::on_repeated_request(Connection& connection) noexcept {
  if (connection.state == CmState::kReqReceived) {
    ask_for_patience(connection, kAboutReq);
  } else if (connection.state == CmState::kRepSent || connection.state == CmState::kTimewait) {
    counters_.add(CmCounter::kAnsweredAgain);
    send(connection.peer, connection.last);
  } else {
    counters_.add(CmCounter::kWrongState);
  }
}

void ConnectionManager::on_rep(Instant /*now*/, Lid from, const CmMad& mad) noexcept {
  Connection* connection = find(from, mad);
  if (connection == nullptr) return refuse(from, mad, kRejectInvalidId);
  if (connection->state == CmState::kReqSent) {
    connection->remote_id = mad.local_id;
    connection->peer_qpn = mad.qpn;
    enter(*connection, CmState::kRepReceived);
    set_timer(*connection, kNever);
    return tell_user(*connection, CmEventKind::kReply, mad);
  }
  if (connection->state == CmState::kRepReceived) return ask_for_patience(*connection, kAboutRep);
  const bool has_answer =
      connection->state == CmState::kEstablished || connection->state == CmState::kTimewait;
  counters_.add(has_answer ? CmCounter::kAnsweredAgain : CmCounter::kWrongState);
  if (has_answer) send(from, connection->last);
}

/// A DREQ is answered whatever became of the connection: nobody shall repeat it for nothing.
void ConnectionManager::on_dreq(Instant now, Lid from, const CmMad& mad) noexcept {
  Connection* connection = find(from, mad);
  if (connection == nullptr || connection->own_qpn != mad.qpn) {
    if (connection != nullptr) counters_.add(CmCounter::kWrongPeer);
    return send(from, {.kind = MadKind::kDrep,
                       .transaction = mad.transaction,
                       .local_id = mad.remote_id,
                       .remote_id = mad.local_id});
  }
  switch (connection->state) {
    case CmState::kRepSent:
    case CmState::kRepReceived:
    case CmState::kEstablished:
      connection->last = mad;
      enter(*connection, CmState::kDreqReceived);
      set_timer(*connection, kNever);
      return tell_user(*connection, CmEventKind::kDisconnected, mad);
    case CmState::kDreqSent:  // both ask: each is answered, and none has to wait for its user
      connection->last.transaction = mad.transaction;
      tell(*connection, reply_to(*connection, MadKind::kDrep), CmState::kDreqSent);
      enter_timewait(now, *connection);
      return tell_user(*connection, CmEventKind::kDisconnected, mad);
    case CmState::kTimewait:
      counters_.add(CmCounter::kAnsweredAgain);
      connection->last.transaction = mad.transaction;
      return send(from, reply_to(*connection, MadKind::kDrep));
    case CmState::kReqSent:
    case CmState::kReqReceived:
    case CmState::kDreqReceived:  // it will be answered when the user has decided
    case CmState::kSidrReqSent:
    case CmState::kSidrReqReceived:
    case CmState::kClosed:
      break;
  }
  counters_.add(CmCounter::kWrongState);
}

void ConnectionManager::on_known(Instant now, Connection& connection, const CmMad& mad) noexcept {
  if (mad.kind == MadKind::kMra) return on_mra(now, connection, mad);
  if (mad.kind == MadKind::kRej) return on_rej(connection, mad);
  if (mad.kind == MadKind::kRtu && connection.state == CmState::kRepSent) {
    enter(connection, CmState::kEstablished);
    set_timer(connection, kNever);
    return tell_user(connection, CmEventKind::kEstablished, mad);
  }
  if (mad.kind == MadKind::kDrep && connection.state == CmState::kDreqSent) {
    enter_timewait(now, connection);
    return tell_user(connection, CmEventKind::kDisconnected, mad);
  }
  if (mad.kind == MadKind::kSidrRep && connection.state == CmState::kSidrReqSent) {
    close(connection);
    return tell_user(connection, CmEventKind::kSidrReply, mad);
  }
  counters_.add(CmCounter::kWrongState);
}

void ConnectionManager::on_mra(Instant now, Connection& connection, const CmMad& mad) noexcept {
  const bool expected = (connection.state == CmState::kReqSent && mad.about == kAboutReq) ||
                        (connection.state == CmState::kRepSent && mad.about == kAboutRep);
  if (!expected) return counters_.add(CmCounter::kWrongState);
  watch(connection, true);  // the peer's program may take long, but not end
  set_timer(connection, now + time_of_code(mad.service_timeout) + times_.response);
}

void ConnectionManager::on_rej(Connection& connection, const CmMad& mad) noexcept {
  switch (connection.state) {
    case CmState::kReqSent:
    case CmState::kReqReceived:
    case CmState::kRepSent:
    case CmState::kRepReceived:
      close(connection);
      return tell_user(connection, CmEventKind::kRejected, mad);
    case CmState::kEstablished:  // the peer never got our RTU, or has forgotten us
    case CmState::kDreqSent:
      close(connection);
      return tell_user(connection, CmEventKind::kDisconnected, mad);
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

/// Of those that are watched; what is told to the user may end others of them.
template <class Each>
void ConnectionManager::for_each_watched(Lid peer, Each each) {
  std::vector<uint32_t> found;
  for (const auto& [id, connection] : by_id_) {
    if (connection->watched && connection->peer == peer) found.push_back(id);
  }
  for (const uint32_t id : found) each(*by_id_.find(id)->second);
}

void ConnectionManager::peer_is(Instant now, Lid peer, uint64_t incarnation) noexcept {
  for_each_watched(peer, [&](Connection& connection) {
    if (connection.process == 0) connection.process = incarnation;
    if (connection.process != incarnation) end_with_peer(now, connection);
  });
}

void ConnectionManager::peer_has_gone(Instant now, Lid peer) noexcept {
  for_each_watched(peer, [&](Connection& connection) { end_with_peer(now, connection); });
}

void ConnectionManager::end_with_peer(Instant now, Connection& connection) noexcept {
  const CmMad nothing;
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
  const CmMad nothing;
  if (connection.state == CmState::kTimewait) {
    close(connection);
    if (!connection.datagrams) return tell_user(connection, CmEventKind::kTimewaitExit, nothing);
    if (connection.user == nullptr) forget(connection);
    return;
  }
  if (connection.tries < times_.repeats) {
    ++connection.tries;
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
