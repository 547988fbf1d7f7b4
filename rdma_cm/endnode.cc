// How it works. The two cores below know connections and questions; here they become the identifiers and
// events that programs know. A request makes an identifier without a user's number (uid): until the program
// accepts it, nothing but the request itself is told, as in the kernel.
#include "rdma_cm/endnode.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "messages/link_local.h"
#include "messages/multicast.h"
#include "rdma_cm/event_content.h"
#include "rdma_cm/ip_cm.h"

namespace weft::rdma_cm {
namespace {

/// A service of an IP port: its port space and port; false for any other.
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
      ids_(random),
      manager_(random, port, *this, times),
      resolver_(node.identity().guid, random, port, *this),
      watch_(node.identity().process, random, port, *this) {}

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

void Endnode::destroy_of(Instant now, CmFile& file) noexcept {
  for (std::vector<CmId*> left = ids_.of(file); !left.empty(); left = ids_.of(file))
    destroy(now, *left.front());
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
  return taken;
}

/// Those that share it here hold it together.
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
  std::vector<CmId*> orphans;
  ids_.destroy(id, orphans);
  for (CmId* orphan : orphans) destroy(now, *orphan);
  return reported;
}

void Endnode::tell(CmId& id, CmEvent event, int32_t status) noexcept {
  if (id.uid == 0) return;
  ids_.push(*id.file, {.id = &id, .content = make_event(id, event, status)});
}

void Endnode::tell_joined(CmId& id, Membership& group) noexcept {
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
  ids_.push(*id.file, event);
}

// ---- the fabric --------------------

void Endnode::receive(Instant now, Lid from, std::span<const std::byte> bytes) noexcept {
  CmMad mad;
  if (decode_mad(bytes, mad) != MadError::kNone) return manager_.counters().add(CmCounter::kMalformed);
  if (mad.kind == MadKind::kWhoHas && from == node_.identity().lid)
    return;  // our own, as a member of the group
  if (mad.kind == MadKind::kWhoHas || mad.kind == MadKind::kHas) return resolver_.receive(now, from, mad);
  if (mad.kind == MadKind::kWhoIsThere || mad.kind == MadKind::kIsThere)
    return watch_.receive(now, from, mad);
  manager_.receive(now, from, mad);
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
    for (CmId* id : ids_.of(file)) {
      if (id->on_device) tell(*id, event);
    }
  }
}

bool Endnode::on_request(Connection& connection, const CmMad& mad) noexcept {
  uint16_t port_space = 0;
  IpAddress to;
  IpCmHeader ip;
  const auto head = std::span(mad.private_data).first<kIpCmBytes>();
  if (!is_ip_service(mad.service_id, port_space, to.port) || !decode_ip_cm(head, ip)) return false;
  to.family = ip.family;
  to.ip = ip.destination;
  CmId* listener = ids_.listener(port_space, to);
  if (listener == nullptr || listener->datagrams() != connection.datagrams || listener->backlog == 0)
    return false;
  CmId* id = ids_.create(*listener->file, port_space, listener->qp_type);
  if (id == nullptr) return false;
  --listener->backlog;
  adopt(*id, connection, mad, {.family = ip.family, .ip = ip.source, .port = ip.source_port}, to);

  QueuedEvent event{.id = listener, .request = id, .content = make_event(*id, CmEvent::kConnectRequest)};
  event.content.uid = listener->uid;
  if (!connection.datagrams) set_offer(event.content, mad);
  set_private(event.content, *id, mad, kIpCmBytes);
  ids_.push(*listener->file, event);
  return true;
}

/// The identifier of a request: at the address that was asked for, on the way back to the peer.
void Endnode::adopt(CmId& id, Connection& connection, const CmMad& mad, const IpAddress& from,
                    const IpAddress& to) noexcept {
  id.state = IdState::kConnect;
  id.source = to;
  id.destination = from;
  id.on_device = true;
  id.connection = &connection;
  id.peer_lid = connection.peer;
  id.peer_gid = mad.path.local_gid;
  id.peer_offer = mad;
  id.retry_count = mad.retry_count;
  id.rnr_retry = mad.rnr_retry;
  id.responder_resources = mad.initiator_depth;
  id.initiator_depth = mad.responder_resources;
  connection.user = &id;
}

void Endnode::on_event(Connection& connection, CmEventKind kind, const CmMad& mad) noexcept {
  CmId& id = *static_cast<CmId*>(connection.user);
  if (kind == CmEventKind::kSidrReply) return on_sidr_reply(id, mad);
  if (id.uid == 0) return;
  rdma_ucm_event_resp event{};
  switch (kind) {
    case CmEventKind::kReply:
      event = make_event(id, CmEvent::kConnectResponse);
      id.peer_offer = mad;
      id.rnr_retry = mad.rnr_retry;
      id.responder_resources = std::min(id.responder_resources, mad.initiator_depth);
      id.initiator_depth = std::min(id.initiator_depth, mad.responder_resources);
      set_offer(event, mad);
      set_private(event, id, mad, 0);
      break;
    case CmEventKind::kEstablished:
      event = make_event(id, CmEvent::kEstablished);
      break;
    case CmEventKind::kRejected:
      event = make_event(id, CmEvent::kRejected, mad.reason);
      set_private(event, id, mad, 0);
      break;
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
  ids_.push(*id.file, {.id = &id, .content = event});
}

void Endnode::on_sidr_reply(CmId& id, const CmMad& mad) noexcept {
  const bool good = mad.status == kSidrValid;
  rdma_ucm_event_resp event =
      make_event(id, good ? CmEvent::kEstablished : CmEvent::kUnreachable, mad.status);
  event.param.ud.qp_num = mad.qpn;
  event.param.ud.qkey = mad.qkey;
  event.param.ud.ah_attr = make_ah(id.peer_lid, node_.identity().port);
  set_private(event, id, mad, 0);
  ids_.push(*id.file, {.id = &id, .content = event});
}

// ---- peers --------------------

/// Whoever is connected with itself ends with itself.
void Endnode::on_watch(Lid peer, bool wanted) noexcept {
  if (peer == node_.identity().lid) return;
  if (wanted) return watch_.begin(peer);
  watch_.end(peer);
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

/// An own address is nobody else's, though others may have taken the port at their wildcard address.
bool Endnode::held_elsewhere(const MadAddress& question) noexcept {
  const IpAddress address = asked_for(question);
  if (address.same_ip(node_.own(address.family))) return false;
  return (address.is_loopback() || node_.owns(address)) && node_.port_taken(question.port_space, address);
}

void Endnode::on_resolved(uint64_t question, Lid lid, Guid guid) noexcept {
  CmId* id = ids_.with_question(question);
  if (id == nullptr) return;
  id->question = 0;
  if (lid == kLidNone) {
    id->state = IdState::kBound;
    return tell(*id, CmEvent::kAddressError, -ETIMEDOUT);
  }
  id->state = IdState::kAddressResolved;
  id->peer_lid = lid;
  id->peer_gid = link_local_gid(guid);
  tell(*id, CmEvent::kAddressResolved);
}

}  // namespace weft::rdma_cm
