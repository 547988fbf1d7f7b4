// How it works. The cores below handle connections and address questions. This file turns them into the
// identifiers and events that programs know. A request makes an identifier without a user's number (uid). As
// in the kernel, the program gets no event about it except the request itself until it accepts.
#include "rdma_cm/endnode.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "messages/link_local.h"
#include "messages/multicast.h"
#include "rdma_cm/event_content.h"
#include "rdma_cm/host_mark.h"
#include "rdma_cm/ip_cm.h"
#include "rdma_cm/node_addresses.h"

namespace weft::rdma_cm {
namespace {

/// Splits a service id into port space and port. False if the service is not an IP port.
bool is_ip_service(uint64_t service, uint16_t& port_space, uint16_t& port) noexcept {
  port_space = static_cast<uint16_t>(service >> 16);
  port = static_cast<uint16_t>(service);
  return service >> 32 == 0;
}

IpAddress asked_for(const MadAddress& question) noexcept {
  return {.family = question.family, .ip = question.ip, .port = question.port};
}

}  // namespace

Endnode::Endnode(RandomSource& random, MadPort& port, NodeView& node, const CmTimes& times)
    : node_(node),
      random_(random),
      ids_(random),
      manager_(random, port, *this, times),
      resolver_(node.identity().guid, random, port, *this, node.identity().host),
      watch_(node.identity().process, random, port, *this),
      cm_agent_(*this, &Endnode::receive_cm),
      endnode_agent_(*this, &Endnode::receive_endnode),
      dispatcher_(port) {
  const bool claimed =
      dispatcher_.claim(MadClass::kConnection, kCmClassVersion, {MadMethod::kSend}, cm_agent_) &&
      dispatcher_.claim(MadClass::kEndnode, kEndnodeClassVersion, {MadMethod::kSend}, endnode_agent_);
  WEFT_CHECK(claimed, "the classes of an endnode are free");
}

// ---- programs --------------------

CmFile* Endnode::open() {
  std::shared_ptr<hca::EventFd> descriptor = hca::EventFd::create();
  if (descriptor == nullptr) return nullptr;
  files_.push_back({.descriptor = std::move(descriptor), .events = {}});
  return &files_.back();
}

void Endnode::close(Instant now, CmFile& file) noexcept {
  destroy_of(now, file);
  files_.remove_if([&](const CmFile& each) { return &each == &file; });
}

/// The events are dropped first, so that each identifier ends in constant time.
void Endnode::destroy_of(Instant now, CmFile& file) noexcept {
  ids_.drop_all_events(file);
  while (file.ids != nullptr) destroy(now, *file.ids);
}

void Endnode::destroy_all(Instant now) noexcept {
  for (CmFile& file : files_) destroy_of(now, file);
}

CmFile* Endnode::file_of(int descriptor) noexcept {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const CmFile& file) { return file.descriptor->fd() == descriptor; });
  return found != files_.end() ? &*found : nullptr;
}

int Endnode::hold_port(CmId& id) noexcept {
  const int taken = node_.hold_port(id.port_space, id.source, id.reuse_address);
  if (taken == 0) id.held = id.source;
  return taken == EADDRINUSE && id.source.is_any() ? EADDRNOTAVAIL : taken;
}

/// Identifiers of this process that share a port hold it together on the host.
void Endnode::release_port(CmId& id) noexcept {
  const IpAddress held = std::exchange(id.held, {});
  if (held.family == 0) return;
  ids_.release_port(id);
  if (!ids_.is_bound(id.port_space, held)) node_.release_port(id.port_space, held);
}

int Endnode::bind(CmId& id, const IpAddress& address) noexcept {
  if (const int taken = ids_.bind(id, address); taken != 0) return taken;
  if (address.port == 0) return 0;
  const int taken = hold_port(id);
  if (taken != 0) {
    ids_.release_port(id);
    id.source = {};
  }
  return taken;
}

int Endnode::listen(CmId& id, uint32_t backlog) noexcept {
  if (id.held.family == 0) {
    if (const int taken = hold_port(id); taken != 0) return taken;
  }
  id.backlog = backlog;
  id.state = IdState::kListening;
  return 0;
}

uint32_t Endnode::destroy(Instant now, CmId& id) noexcept {
  const uint32_t reported = id.events_reported;
  if (id.question != 0) resolver_.forget(id.question);
  if (id.connection != nullptr) manager_.destroy(now, *id.connection);
  release_port(id);
  for (CmId* orphan = ids_.destroy(id); orphan != nullptr;)
    destroy(now, *std::exchange(orphan, orphan->next_orphan));
  return reported;
}

bool Endnode::push(const QueuedEvent& event) noexcept {
  const auto kind = static_cast<CmEvent>(event.content.event);
  const auto status = static_cast<int32_t>(event.content.status);
  if (is_failure(kind, status)) [[unlikely]] {
    const Lid peer = kind == CmEvent::kAddressError ? kLidNone : event.id->peer_lid;
    node_.explain({.event = kind, .status = status, .address = event.id->destination, .peer = peer});
  }
  const bool queued = ids_.push(*event.id->file, event);
  if (!queued) manager_.counters().add(CmCounter::kEventsLost);
  return queued;
}

bool Endnode::tell(CmId& id, CmEvent event, int32_t status) noexcept {
  return id.uid == 0 || push({.id = &id, .content = make_event(id, event, status)});
}

bool Endnode::tell_joined(CmId& id, Membership& group) noexcept {
  QueuedEvent event{.id = &id, .group = &group, .content = make_event(id, CmEvent::kMulticastJoin)};
  event.content.uid = group.uid;
  event.content.id = group.handle;
  rdma_ucm_ud_param& ud = event.content.param.ud;
  ud.qp_num = kQpnMulticast.value();
  ud.qkey = kUdpQkey;
  ud.ah_attr = make_ah(group.lid, node_.identity().port);
  ud.ah_attr.is_global = 1;
  ud.ah_attr.grh.hop_limit = kHopLimitDefault;
  std::copy(group.gid.begin(), group.gid.end(), reinterpret_cast<std::byte*>(ud.ah_attr.grh.dgid));
  return push(event);
}

// ---- the fabric --------------------

void Endnode::receive(Instant now, Lid from, std::span<const std::byte> bytes) noexcept {
  if (dispatcher_.dispatch(now, from, bytes) != management::MadFate::kTaken)
    manager_.counters().add(CmCounter::kMalformed);
}

void Endnode::receive_cm(const management::MadArrival& arrival) noexcept {
  CmMad mad;
  if (decode_cm(arrival.bytes, mad) != MadError::kNone) return manager_.counters().add(CmCounter::kMalformed);
  manager_.receive(arrival.now, arrival.from, mad);
}

void Endnode::receive_endnode(const management::MadArrival& arrival) noexcept {
  EndnodeMad mad;
  if (decode_endnode(arrival.bytes, mad) != MadError::kNone)
    return manager_.counters().add(CmCounter::kMalformed);
  if (std::holds_alternative<WhoHas>(mad.body) && arrival.from == node_.identity().lid)
    return;  // our own, as a member of the group
  const bool of_process =
      std::holds_alternative<WhoIsThere>(mad.body) || std::holds_alternative<IsThere>(mad.body);
  if (of_process) return watch_.receive(arrival.now, arrival.from, mad);
  resolver_.receive(arrival.now, arrival.from, mad);
}

void Endnode::poll(Instant now) noexcept {
  manager_.poll(now);
  resolver_.poll(now);
  watch_.poll(now);
}

Instant Endnode::deadline() const noexcept {
  return std::min({manager_.deadline(), resolver_.deadline(), watch_.deadline()});
}

void Endnode::on_device(CmEvent event) noexcept {
  for (CmFile& file : files_) {
    for (CmId* id = file.ids; id != nullptr; id = id->next) {
      if (id->on_device) static_cast<void>(tell(*id, event));
    }
  }
}

bool Endnode::read_request(uint64_t service_id, std::span<const std::byte> private_data,
                           IpRequest& out) noexcept {
  IpCmHeader ip;
  if (!is_ip_service(service_id, out.port_space, out.to.port) ||
      !decode_ip_cm(private_data.first<kIpCmBytes>(), ip))
    return false;
  out.to.family = out.from.family = ip.family;
  out.to.ip = ip.destination;
  out.from.ip = ip.source;
  out.from.port = ip.source_port;
  return true;
}

/// A mark, by which the receiver knows whether the request comes from its own host.
uint64_t Endnode::transaction_of(CmAttribute request, uint32_t local_id) noexcept {
  const NodeIdentity self = node_.identity();
  const uint64_t mark = host_mark(self.host, static_cast<uint16_t>(request), self.lid, local_id);
  return mark != 0 ? mark : random_.next();
}

bool Endnode::is_of_this_host(const Connection& connection) noexcept {
  const NodeIdentity self = node_.identity();
  if (connection.peer == self.lid) return true;
  const CmAttribute request = connection.datagrams ? CmAttribute::kSidrReq : CmAttribute::kReq;
  const uint64_t mark =
      host_mark(self.host, static_cast<uint16_t>(request), connection.peer, connection.remote_id);
  return mark != 0 && mark == connection.last.transaction;
}

/// The program is told this address as its peer's. As for answers about addresses (address_resolver.h), a
/// fixed address is that of one LID, and a loopback address or one of this host is that of an endnode of this
/// host.
bool Endnode::may_come_from(const IpAddress& address, const Connection& connection) noexcept {
  const IpAddress plain = without_mapping(address);
  const Lid only = lid_of(plain);
  if (only != kLidNone) return only == connection.peer;
  return (!plain.is_loopback() && !node_.owns(plain)) || is_of_this_host(connection);
}

/// True when the listener's QPs have the type that the request is for. As in the kernel, an identifier
/// without a type takes each.
bool Endnode::serves(const CmId& listener, const Connection& connection, const IpRequest& request) noexcept {
  if (listener.datagrams() || connection.datagrams) return listener.datagrams() == connection.datagrams;
  if (listener.qp_type == 0) return true;
  return request.service == (listener.qp_type == IBV_QPT_UC ? kCmServiceUc : kCmServiceRc);
}

CmId* Endnode::listener_of(const Connection& connection, const IpRequest& request,
                           RequestAnswer& why_not) noexcept {
  const CmId* const at_port = ids_.at_port(request.port_space, request.to.port);
  const bool listens = at_port != nullptr && at_port->state == IdState::kListening;
  why_not = listens ? RequestAnswer::kRefused : RequestAnswer::kNoListener;
  if (!may_come_from(request.from, connection)) {
    manager_.counters().add(CmCounter::kFalseSource);
    node_.explain({.address = request.to,
                   .peer = connection.peer,
                   .turned_away = TurnedAway::kFalseSource,
                   .listener = request.from});
    return nullptr;
  }
  CmId* listener = ids_.listener(request.port_space, request.to);
  const bool served = listener != nullptr && serves(*listener, connection, request);
  if (served && listener->backlog != 0) return listener;
  if (served) why_not = RequestAnswer::kLater;
  CmFailure failure = why_no_listener(request, listener, served);
  failure.address = request.to;
  failure.peer = connection.peer;
  node_.explain(failure);
  return nullptr;
}

/// @param listener  a listener that does not take the request, or null
/// @param served    it takes requests of this kind, but its backlog is full
CmFailure Endnode::why_no_listener(const IpRequest& request, const CmId* listener,
                                   bool served) const noexcept {
  constexpr std::array<uint16_t, 3> kSpaces{RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB};
  const uint16_t port = request.to.port;
  if (listener != nullptr)
    return {.turned_away = served ? TurnedAway::kBacklogFull : TurnedAway::kOtherQpType};
  if (const CmId* near = ids_.at_port(request.port_space, port); near != nullptr) {
    const bool listens = near->state == IdState::kListening;
    return {.turned_away = listens ? TurnedAway::kOtherAddress : TurnedAway::kNotListening,
            .listener = near->source};
  }
  for (const uint16_t space : kSpaces) {
    const CmId* near = ids_.at_port(space, port);
    if (near != nullptr && near->state == IdState::kListening)
      return {.turned_away = TurnedAway::kOtherService};
  }
  const auto swapped = static_cast<uint16_t>(port << 8 | port >> 8);
  const CmId* near = ids_.at_port(request.port_space, swapped);
  if (near != nullptr && near->state == IdState::kListening)
    return {.turned_away = TurnedAway::kSwappedPort, .listener = near->source};
  return {.turned_away = TurnedAway::kNobody};
}

/// Makes the identifier of a request, with the requested address as source and the peer's as destination.
/// Null without memory.
CmId* Endnode::adopt(CmId& listener, Connection& connection, const IpRequest& request) noexcept {
  CmId* id = ids_.create(*listener.file, request.port_space, listener.qp_type);
  if (id == nullptr) return nullptr;
  --listener.backlog;
  id->state = IdState::kConnect;
  id->source = request.to;
  id->destination = request.from;
  id->on_device = true;
  id->connection = &connection;
  id->peer_lid = connection.peer;
  connection.user = id;
  return id;
}

/// Queues the event for the listener's program. Without memory the identifier is destroyed.
RequestAnswer Endnode::announce(CmId& listener, CmId& id, QueuedEvent& event) noexcept {
  event.content.uid = listener.uid;
  if (push(event)) return RequestAnswer::kTaken;
  ++listener.backlog;
  id.connection->user = nullptr;
  static_cast<void>(ids_.destroy(id));
  return RequestAnswer::kLater;
}

RequestAnswer Endnode::on_request(Connection& connection, const CmReq& req) noexcept {
  IpRequest request;
  if (!read_request(req.service_id, req.private_data, request)) return RequestAnswer::kNoListener;
  request.service = req.service;
  RequestAnswer why_not{};
  CmId* listener = listener_of(connection, request, why_not);
  if (listener == nullptr) return why_not;
  CmId* id = adopt(*listener, connection, request);
  if (id == nullptr) return RequestAnswer::kLater;
  id->peer_gid = req.path.local_gid;
  id->peer_offer = {.service_id = req.service_id, .qpn = req.qpn, .psn = req.psn, .path_mtu = req.path_mtu};
  id->retry_count = req.retry_count;
  id->rnr_retry = req.rnr_retry;
  id->responder_resources = req.initiator_depth;
  id->initiator_depth = req.responder_resources;
  QueuedEvent event{.id = listener, .request = id, .content = make_event(*id, CmEvent::kConnectRequest)};
  set_offer(event.content, req);
  set_private(event.content, *id, std::span(req.private_data).subspan(kIpCmBytes));
  return announce(*listener, *id, event);
}

RequestAnswer Endnode::on_sidr_request(Connection& connection, const CmSidrReq& req) noexcept {
  IpRequest request;
  if (!read_request(req.service_id, req.private_data, request)) return RequestAnswer::kNoListener;
  RequestAnswer why_not{};
  CmId* listener = listener_of(connection, request, why_not);
  if (listener == nullptr) return why_not;
  CmId* id = adopt(*listener, connection, request);
  if (id == nullptr) return RequestAnswer::kLater;
  id->peer_offer = {.service_id = req.service_id};
  QueuedEvent event{.id = listener, .request = id, .content = make_event(*id, CmEvent::kConnectRequest)};
  set_private(event.content, *id, std::span(req.private_data).subspan(kIpCmBytes));
  return announce(*listener, *id, event);
}

void Endnode::on_event(Connection& connection, CmEventKind kind, const CmBody& message) noexcept {
  CmId& id = *static_cast<CmId*>(connection.user);
  if (kind == CmEventKind::kSidrReply) return on_sidr_reply(id, *std::get_if<CmSidrRep>(&message));
  if (id.uid == 0) return;
  rdma_ucm_event_resp event{};
  switch (kind) {
    case CmEventKind::kReply:
      return on_reply(id, *std::get_if<CmRep>(&message));
    case CmEventKind::kEstablished:
      event = make_event(id, CmEvent::kEstablished);
      break;
    case CmEventKind::kRejected: {
      const CmRej& rej = *std::get_if<CmRej>(&message);
      event = make_event(id, CmEvent::kRejected, rej.reason);
      set_private(event, id, rej.private_data);
      break;
    }
    case CmEventKind::kUnreachable:
      event = make_event(id, CmEvent::kUnreachable, -ETIMEDOUT);
      break;
    case CmEventKind::kDisconnected:
      event = make_event(id, CmEvent::kDisconnected);
      break;
    case CmEventKind::kUnanswered:
      event = make_event(id, CmEvent::kDisconnected, -ETIMEDOUT);
      break;
    case CmEventKind::kTimewaitExit:
      event = make_event(id, CmEvent::kTimewaitExit);
      break;
    case CmEventKind::kSidrReply:
      return;
  }
  static_cast<void>(push({.id = &id, .content = event}));
}

void Endnode::on_reply(CmId& id, const CmRep& rep) noexcept {
  rdma_ucm_event_resp event = make_event(id, CmEvent::kConnectResponse);
  id.peer_offer = {.qpn = rep.qpn, .psn = rep.psn};
  id.rnr_retry = rep.rnr_retry;
  id.responder_resources = std::min(id.responder_resources, rep.initiator_depth);
  id.initiator_depth = std::min(id.initiator_depth, rep.responder_resources);
  set_offer(event, rep);
  set_private(event, id, rep.private_data);
  static_cast<void>(push({.id = &id, .content = event}));
}

void Endnode::on_sidr_reply(CmId& id, const CmSidrRep& rep) noexcept {
  const bool good = rep.status == kSidrValid;
  rdma_ucm_event_resp event =
      make_event(id, good ? CmEvent::kEstablished : CmEvent::kUnreachable, rep.status);
  event.param.ud.qp_num = rep.qpn;
  event.param.ud.qkey = rep.qkey;
  event.param.ud.ah_attr = make_ah(id.peer_lid, node_.identity().port);
  set_private(event, id, rep.private_data);
  static_cast<void>(push({.id = &id, .content = event}));
}

// ---- peers --------------------

/// A connection to our own process needs no peer watch.
bool Endnode::on_watch(Lid peer, bool wanted) noexcept {
  if (peer == node_.identity().lid) return true;
  if (wanted) return watch_.begin(peer);
  watch_.end(peer);
  return true;
}

Presence Endnode::presence(const MadProcess& process) noexcept {
  return node_.presence(process);
}

void Endnode::on_peer(Instant now, Lid peer, uint64_t incarnation) noexcept {
  manager_.peer_is(now, peer, incarnation);
}

void Endnode::on_peer_gone(Instant now, Lid peer) noexcept {
  manager_.peer_has_gone(now, peer);
}

// ---- addresses --------------------

Owns Endnode::owns(const MadAddress& question) noexcept {
  const IpAddress address = asked_for(question);
  if (address.is_loopback() && question.host != node_.identity().host) return Owns::kNo;
  if (!address.is_loopback() && !node_.owns(address)) return Owns::kNo;
  if (ids_.listener(question.port_space, address) != nullptr) return Owns::kListens;
  return ids_.is_bound(question.port_space, address) ? Owns::kBound : Owns::kYes;
}

/// An own address belongs only to this endnode, even if other endnodes hold the port at their wildcard
/// address.
bool Endnode::held_elsewhere(const MadAddress& question) noexcept {
  const IpAddress address = asked_for(question);
  if (address.same_ip(node_.own(address.family))) return false;
  return (address.is_loopback() || node_.owns(address)) && node_.port_taken(question.port_space, address);
}

void Endnode::on_resolved(uint64_t question, uint32_t handle, Lid lid, Guid guid) noexcept {
  CmId* id = ids_.with_question(handle, question);
  if (id == nullptr) return;
  id->question = 0;
  if (lid == kLidNone) {
    id->state = IdState::kBound;
    static_cast<void>(tell(*id, CmEvent::kAddressError, -ETIMEDOUT));
    return;
  }
  id->state = IdState::kAddressResolved;
  id->peer_lid = lid;
  id->peer_gid = link_local_gid(guid);
  static_cast<void>(tell(*id, CmEvent::kAddressResolved));
}

}  // namespace weft::rdma_cm
