// The QPs of an adapter: creation, end, and membership in groups and protocols. What
// the checks refuse has taken neither memory nor a place.
#include <utility>

#include "adapter/adapter.h"
#include "adapter/adapter_parts.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/transport/unreliable/unreliable_service.h"
#include "messages/multicast.h"

namespace weft::adapter {
namespace {

/// `line` has a `{}` for the value and one for the largest.
Refusable<> check_size(const char* line, uint32_t value, uint32_t least, uint32_t most) noexcept {
  if (value >= least && value <= most) return {};
  return Refusal{Reason::kBadSize, line, value, most};
}

Refusable<> check_queues(const AdapterParts& parts, const QpConfig& config, const ServiceRow& row) {
  if (config.send_cq == nullptr || config.recv_cq == nullptr)
    return Refusal{Reason::kMissingObject, "create_qp: needs a CQ for each queue"};
  if (!parts.cqs.owns(*config.send_cq) || !parts.cqs.owns(*config.recv_cq))
    return Refusal{Reason::kForeignObject, "create_qp: a CQ belongs to another adapter"};
  if (!parts.pds.has(config.pd))
    return Refusal{Reason::kNoSuchObject, "create_qp: no such protection domain"};
  if (config.srq != nullptr && !parts.srqs.owns(config.srq))
    return Refusal{Reason::kForeignObject, "create_qp: the SRQ belongs to another adapter"};
  if (config.srq != nullptr && config.srq->config.xrcd != XrcdId())
    return Refusal{Reason::kNotOfService, "create_qp: the SRQ serves the targets of an XRC domain"};
  if (!row.has_recv_queue && config.srq != nullptr)
    return Refusal{Reason::kNotOfService, "create_qp: an XRC initiator takes no SRQ, as it receives nothing"};
  return {};
}

/// Checks a configuration against limits, which never change: may be called by any thread.
Refusable<> check_sizes(const AdapterLimits& most, const QpConfig& config, const ServiceRow& row) {
  const uint32_t receives_least = row.has_recv_queue && config.srq == nullptr ? 1 : 0;
  Refusable<> good =
      check_size("create_qp: max_send_wr {}; 1 to {} are possible", config.send_wqes, 1, most.wqes_per_queue);
  if (good.ok())
    good = check_size("create_qp: max_recv_wr {}; at most {} are possible", config.recv_wqes, receives_least,
                      most.wqes_per_queue);
  if (good.ok())
    good = check_size("create_qp: max_send_sge or max_recv_sge {}; at most {} are possible", config.sges, 0,
                      most.sges_per_wqe);
  return good;
}

/// Fills in what an XRC QP has instead of its own queues, and checks the rest.
Refusable<> check_qp(AdapterParts& parts, QpConfig& config, const ServiceRow& row) {
  if (!row.has_recv_queue && config.recv_cq == nullptr && !row.serves_domain) config.recv_cq = config.send_cq;
  if (row.serves_domain) {
    if (!parts.srqs.has(config.xrcd)) return Refusal{Reason::kNoSuchObject, "create_qp: no such XRC domain"};
    if (config.send_cq != nullptr || config.recv_cq != nullptr || config.srq != nullptr ||
        config.pd != PdId())
      return Refusal{Reason::kNotOfService,
                     "create_qp: an XRC target has neither queues nor a protection domain"};
    if (!config.idata_takes_recv_wqe)
      return Refusal{Reason::kNotOfService,
                     "create_qp: immediate data to an XRC target takes a receive request of an SRQ"};
    config.send_cq = config.recv_cq = &parts.no_cq;
  } else if (config.xrcd != XrcdId()) {
    return Refusal{Reason::kNotOfService, "create_qp: only XRC targets belong to an XRC domain"};
  } else if (Refusable<> good = check_queues(parts, config, row); !good) {
    return good;
  }
  if (config.ack_mode == AckMode::kStrict && !row.acknowledged)
    return Refusal{Reason::kNotOfService, "create_qp: strict ack_mode needs a service with acknowledgements"};
  if (config.packet_crc && !row.connected)
    return Refusal{Reason::kNotOfService, "create_qp: only packets of connected services carry a CRC"};
  if (config.packet_crc && !row.has_packet_crc)
    return Refusal{Reason::kNotOfService, "create_qp: packets of XRC carry no CRC"};
  if (config.grh_space && !row.has_grh_space)
    return Refusal{Reason::kNotOfService, "create_qp: only receives of UD have room for a global header"};
  if (config.raw_ipv6 && !row.takes_raw_frames)
    return Refusal{Reason::kNotOfService, "create_qp: only messages of RAW are IPv6 packets"};
  return {};
}

}  // namespace

Refusable<QueuePair*> ChannelAdapter::create_qp(const QpConfig& wanted) {
  QpConfig config = wanted;
  const ServiceRow* row = parts_->services.find(config.type);
  const Refusable<> good = row != nullptr ? check_qp(*parts_, config, *row) : Refusable<>();
  Refusable<QpMemory> made = good.ok() ? make_qp(wanted) : Refusable<QpMemory>(good.error());
  if (made.ok()) return create_qp(std::move(*made));
  parts_->engine.count(AdapterCounter::kAgentCalls);
  return made.error();
}

Refusable<QpMemory> ChannelAdapter::make_qp(const QpConfig& config) const {
  const ServiceRow* row = parts_->services.find(config.type);
  if (row == nullptr) return Refusal{Reason::kNoService, "create_qp: the adapter has no such service"};
  if (!row->serves_domain)
    if (Refusable<> good = check_sizes(limits(), config, *row); !good) return good.error();
  auto made = std::make_unique<QueuePair>(config, *row, &parts_->engine, limits().inline_bytes);
  if (parts_->several_nics != nullptr && parts_->engine.config.finds_ways && row->finds_ways)
    made->ways = std::make_unique<WayState>();
  return QpMemory(made.release());
}

Refusable<QueuePair*> ChannelAdapter::create_qp(QpMemory&& memory) {
  Engine& engine = parts_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  QpConfig config = memory->config;
  if (const Refusable<> good = check_qp(*parts_, config, *memory->row); !good) return good.error();
  Qpn number = config.wanted_qpn;
  if (number == kQpnAny) {
    number = parts_->numbers.take(engine.now);
    if (number == kQpnAny) {
      return Refusal{
          Reason::kTableFull,
          "create_qp: all QP numbers are in use or not yet reusable; raise AdapterLimits::queue_pairs"};
    }
  } else if (!is_management(number) || config.type != QpType::kUd) {
    return Refusal{Reason::kNotOfService,
                   "create_qp: only QP 0 and QP 1, UD QPs, can be asked for by number"};
  } else if (config.port == 0 || config.port > engine.ports.size()) {
    return Refusal{Reason::kNoSuchObject, "create_qp: QP 0 or QP 1 of a port that does not exist"};
  } else if (engine.qps.place_of(number, config.port) != nullptr) {
    return Refusal{Reason::kTaken, "create_qp: this QP of the port exists already"};
  }
  auto& slot = engine.qps.place_of(number, config.port);
  slot.reset(memory.release());
  slot->qpn = number;
  slot->config = config;
  slot->service = parts_->services.object_of(*slot->row);
  slot->memory = &engine.memory;
  engine.use_port(*slot, config.port);
  slot->rx.strict_acks.use(engine.strict_acks);
  engine.enlist(*slot);
  if (slot->row->serves_domain) {
    parts_->srqs.enter(config.xrcd);
    return slot.get();
  }
  parts_->pds.enter(config.pd);
  if (engine.spaces != nullptr) engine.spaces->open_qp(config.pd);
  ++config.send_cq->users;
  ++config.recv_cq->users;
  if (config.srq != nullptr) ++config.srq->users;
  if (config.hold_places) config.send_cq->frees_places = config.recv_cq->frees_places = true;
  if (config.srq != nullptr && config.srq->config.hold_places) config.recv_cq->frees_places = true;
  return slot.get();
}

Refusable<> ChannelAdapter::destroy_qp(QueuePair* qp, QpMemory* memory) {
  Engine& engine = parts_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  if (qp->owner != &engine)
    return Refusal{Reason::kForeignObject, "destroy_qp: the QP belongs to another adapter"};
  if (qp->row->takes_raw_frames && parts_->protocols.has(*qp))
    return Refusal{Reason::kBusy, "destroy_qp: the QP is registered for a protocol; unregister it first"};
  if (qp->row->joins_groups && engine.groups.has(*qp))
    return Refusal{Reason::kBusy, "destroy_qp: the QP is member of a multicast group; detach it first"};
  qp->service->say_last_words(*qp);
  qp->service->forget(*qp);
  if (qp->ways != nullptr) parts_->several_nics->ways.forget(*qp);
  forget_everything(engine, *qp);
  engine.delist(*qp);
  if (qp->row->serves_domain) {
    parts_->srqs.leave(qp->config.xrcd);
  } else {
    parts_->pds.leave(qp->config.pd);
    --qp->config.send_cq->users;
    --qp->config.recv_cq->users;
    if (qp->config.srq != nullptr) --qp->config.srq->users;
  }
  qp->owner = nullptr;  // calls for a QP that has ended are refused
  parts_->numbers.give_back(qp->qpn, engine.now);
  QpMemory ended(engine.qps.place_of(qp->qpn, qp->config.port).release());
  if (memory != nullptr) *memory = std::move(ended);
  return {};
}

void ChannelAdapter::say_last_words() noexcept {
  for (QueuePair* qp : parts_->engine.qps.all()) qp->service->say_last_words(*qp);
}

Refusable<> ChannelAdapter::attach_mcast(QueuePair& qp, const Gid& gid, Lid lid) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (qp.owner != &parts_->engine || !qp.row->joins_groups)
    return Refusal{Reason::kNotOfService, "attach_mcast: only UD QPs of this adapter can be members"};
  if (!is_multicast(lid) || !is_multicast(gid))
    return Refusal{Reason::kBadAddress, "attach_mcast: no multicast LID or Gid"};
  if (!parts_->engine.groups.attach(qp.port, lid, {gid, &qp}))
    return Refusal{Reason::kTableFull,
                   "attach_mcast: no more memberships; raise AdapterLimits::multicast_members"};
  return {};
}

Refusable<> ChannelAdapter::detach_mcast(QueuePair& qp, const Gid& gid, Lid lid) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (!parts_->engine.groups.detach(qp.port, lid, {gid, &qp}))
    return Refusal{Reason::kNotMember, "detach_mcast: the QP is not a member of the group"};
  return {};
}

Refusable<> ChannelAdapter::register_protocol(QueuePair& qp, uint8_t next_header, const Gid& address) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (qp.owner != &parts_->engine || !qp.row->takes_raw_frames)
    return Refusal{Reason::kNotOfService, "register_protocol: only RAW QPs of this adapter take raw frames"};
  const Reason added = parts_->protocols.add({qp.port, next_header, address}, qp);
  if (added == Reason::kTaken)
    return Refusal{added, "register_protocol: another QP has this protocol of the address"};
  if (added == Reason::kTableFull)
    return Refusal{added, "register_protocol: no more registrations; raise AdapterLimits::raw_protocols"};
  return {};
}

Refusable<> ChannelAdapter::unregister_protocol(QueuePair& qp, uint8_t next_header, const Gid& address) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (!parts_->protocols.remove({qp.port, next_header, address}, qp))
    return Refusal{Reason::kNotMember, "unregister_protocol: the QP is not registered for it"};
  return {};
}

void ChannelAdapter::leave_groups_and_protocols(QueuePair& qp) noexcept {
  parts_->engine.groups.leave(qp);
  parts_->protocols.leave(qp);
}

const QpConfig& ChannelAdapter::config(const QueuePair& qp) const noexcept {
  return qp.config;
}
QpWay ChannelAdapter::way_of(const QueuePair& qp) const noexcept {
  if (qp.row == &kRcDirectRow) return QpWay::kWindow;
  bool by_port = true;
  if (qp.row != &kUdRow || parts_->direct == nullptr) return QpWay::kSwitch;
  if (!parts_->direct->datagrams().goes_by_window(qp, by_port)) return QpWay::kSwitch;
  return by_port ? QpWay::kBoth : QpWay::kWindow;
}
Qpn ChannelAdapter::qpn(const QueuePair& qp) const noexcept {
  return qp.qpn;
}
QueuePair* ChannelAdapter::find_qp(Qpn number) const noexcept {
  return parts_->engine.qps.find(number);
}
void ChannelAdapter::set_user(QueuePair& qp, void* user) noexcept {
  qp.events.user = user;
}
void* ChannelAdapter::user(const QueuePair& qp) const noexcept {
  return qp.events.user;
}
uint64_t ChannelAdapter::missed_packets(const QueuePair& qp) const noexcept {
  return qp.counters.get(QpCounter::kMissedPackets);
}
const CounterSet<QpCounter>& ChannelAdapter::counters(const QueuePair& qp) const noexcept {
  return qp.counters;
}

}  // namespace weft::adapter
