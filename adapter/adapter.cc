#include "adapter/adapter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "adapter/adapter_core.h"
#include "adapter/key_questions.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/queues/shared_receive_queue.h"
#include "adapter/supplies.h"
#include "base/check.h"
#include "base/stats_page.h"

namespace weft::adapter {

ChannelAdapter::ChannelAdapter(const AdapterConfig& config, RandomSource& random)
    : core_(std::make_unique<AdapterCore>(config, random)) {}
ChannelAdapter::~ChannelAdapter() = default;

void ChannelAdapter::attach(fabric::CellPort& port) {
  attach(port, core_->engine.memory.number());
}

void ChannelAdapter::attach(fabric::CellPort& port, uint8_t nic) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  WEFT_CHECK(core_->engine.computer.of_nic(nic).number() == nic, "no NIC with this number");
  core_->attach(port, nic);
}

const AdapterLimits& ChannelAdapter::limits() const noexcept {
  return core_->engine.config.limits;
}

Refusable<PdId> ChannelAdapter::alloc_pd() {
  core_->engine.count(AdapterCounter::kAgentCalls);
  for (size_t i = 1; i < core_->pds.size(); ++i) {
    if (core_->pds[i]) continue;
    core_->pds[i] = true;
    return PdId(static_cast<uint32_t>(i));
  }
  return Refusal{Reason::kTableFull, "alloc_pd: all are in use; raise AdapterLimits::protection_domains"};
}

Refusable<> ChannelAdapter::dealloc_pd(PdId pd) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (pd.value() >= core_->pds.size() || !core_->pds[pd.value()])
    return Refusal{Reason::kNoSuchObject, "dealloc_pd: no such protection domain"};
  if (!core_->engine.pd_unused(pd))
    return Refusal{Reason::kBusy, "dealloc_pd: regions or keys still belong to it"};
  if (!core_->srqs.pd_unused(pd) || core_->pd_qps[pd.value()] != 0)
    return Refusal{Reason::kBusy, "dealloc_pd: an SRQ or a QP still belongs to it"};
  core_->pds[pd.value()] = false;
  core_->engine.computer.free_pd(pd);
  if (core_->engine.spaces != nullptr) core_->engine.spaces->free_pd(pd);
  return {};
}

MemoryTable& ChannelAdapter::memory() noexcept {
  return core_->engine.memory;
}

MemoryTable& ChannelAdapter::memory(uint8_t nic) noexcept {
  WEFT_CHECK(core_->engine.computer.of_nic(nic).number() == nic, "no NIC with this number");
  return core_->engine.computer.of_nic(nic);
}

NicKeys* ChannelAdapter::use_directory(KeyDirectory& directory) noexcept {
  core_->engine.count(AdapterCounter::kAgentCalls);
  KeyQuestions* questions = core_->engine.questions;
  if (questions != nullptr) questions->use_directory(directory);
  return questions;
}

SharedReceives& ChannelAdapter::srqs() noexcept {
  return core_->srqs;
}

AddressSpaces& ChannelAdapter::use_manager(MemoryManager& manager) {
  Engine& engine = core_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  WEFT_CHECK(engine.spaces == nullptr, "the adapter has a memory manager");
  engine.spaces = std::make_unique<AddressSpaces>(engine.memory, manager);
  return *engine.spaces;
}

Refusable<std::unique_ptr<CompletionQueue>> ChannelAdapter::make_cq(uint32_t cqes) const {
  constexpr const char* kLine = "create_cq: {} entries; 1 to {} are possible";
  if (Refusable<> good = check_size(kLine, cqes, 1, limits().cqes_per_queue); !good) return good.error();
  return std::make_unique<CompletionQueue>(cqes);
}

Refusable<CompletionQueue*> ChannelAdapter::create_cq(uint32_t cqes, uint32_t vector) {
  Refusable<std::unique_ptr<CompletionQueue>> made = make_cq(cqes);
  if (made.ok()) return create_cq(std::move(*made), vector);
  core_->engine.count(AdapterCounter::kAgentCalls);
  return made.error();
}

Refusable<CompletionQueue*> ChannelAdapter::create_cq(std::unique_ptr<CompletionQueue>&& made,
                                                      uint32_t vector) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (vector >= limits().completion_vectors)
    return Refusal{Reason::kNoSuchObject, "create_cq: comp_vector {}; there are {}, from 0", vector,
                   limits().completion_vectors};
  for (uint32_t i = 0; i < limits().completion_queues; ++i) {
    if (i == core_->cqs.size()) core_->cqs.emplace_back();
    if (core_->cqs[i] != nullptr) continue;
    core_->cqs[i] = std::move(made);
    core_->cqs[i]->join(i, core_->engine.notified);
    return core_->cqs[i].get();
  }
  return Refusal{Reason::kTableFull, "create_cq: all are in use; raise AdapterLimits::completion_queues"};
}

Refusable<FixedRing<WorkCompletion>> ChannelAdapter::room_for_cq(uint32_t cqes) const {
  constexpr const char* kLine = "resize_cq: {} entries; 1 to {} are possible";
  if (Refusable<> good = check_size(kLine, cqes, 1, limits().cqes_per_queue); !good) return good.error();
  return CompletionQueue::room_for(cqes);
}

Refusable<> ChannelAdapter::resize_cq(CompletionQueue& cq, uint32_t cqes) {
  Refusable<FixedRing<WorkCompletion>> room = room_for_cq(cqes);
  if (room.ok()) return resize_cq(cq, *room);
  core_->engine.count(AdapterCounter::kAgentCalls);
  return room.error();
}

Refusable<> ChannelAdapter::resize_cq(CompletionQueue& cq, FixedRing<WorkCompletion>& room) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (!core_->owns(&cq))
    return Refusal{Reason::kForeignObject, "resize_cq: the CQ belongs to another adapter"};
  if (!cq.resize(room))
    return Refusal{Reason::kBadSize, "resize_cq: {} entries wait to be polled", cq.fill()};
  return {};
}

Refusable<> ChannelAdapter::destroy_cq(CompletionQueue* cq) {
  std::unique_ptr<CompletionQueue> memory;
  return destroy_cq(cq, memory);
}

Refusable<> ChannelAdapter::destroy_cq(CompletionQueue* cq, std::unique_ptr<CompletionQueue>& memory) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (!core_->owns(cq))
    return Refusal{Reason::kForeignObject, "destroy_cq: the CQ belongs to another adapter"};
  if (cq->users != 0)
    return Refusal{Reason::kBusy, "destroy_cq: QPs still complete there; destroy them first"};
  core_->engine.notified.remove(cq);
  core_->engine.events.drop(cq->events);
  memory = std::move(core_->cqs[cq->index()]);
  return {};
}

Refusable<QueuePair*> ChannelAdapter::create_qp(const QpConfig& wanted) {
  QpConfig config = wanted;
  const ServiceRow* row = core_->services.find(config.type);
  const Refusable<> good = row != nullptr ? core_->check_qp(config, *row) : Refusable<>();
  Refusable<QpMemory> made = good.ok() ? make_qp(wanted) : Refusable<QpMemory>(good.error());
  if (made.ok()) return create_qp(std::move(*made));
  core_->engine.count(AdapterCounter::kAgentCalls);
  return made.error();
}

Refusable<QpMemory> ChannelAdapter::make_qp(const QpConfig& config) const {
  const ServiceRow* row = core_->services.find(config.type);
  if (row == nullptr) return Refusal{Reason::kNoService, "create_qp: the adapter has no such service"};
  if (!row->serves_domain)
    if (Refusable<> good = core_->check_sizes(config, *row); !good) return good.error();
  auto made = std::make_unique<QueuePair>(config, *row, &core_->engine, limits().inline_bytes);
  if (core_->ways != nullptr && core_->engine.config.finds_ways && row->finds_ways)
    made->ways = std::make_unique<WayState>();
  return QpMemory(made.release());
}

Refusable<QueuePair*> ChannelAdapter::create_qp(QpMemory&& memory) {
  Engine& engine = core_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  QpConfig config = memory->config;
  if (const Refusable<> good = core_->check_qp(config, *memory->row); !good) return good.error();
  Qpn number = config.wanted_qpn;
  if (number == kQpnAny) {
    number = core_->numbers.take(engine.now);
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
  } else if (core_->engine.qps.place_of(number, config.port) != nullptr) {
    return Refusal{Reason::kTaken, "create_qp: this QP of the port exists already"};
  }
  auto& slot = core_->engine.qps.place_of(number, config.port);
  slot.reset(memory.release());
  slot->qpn = number;
  slot->config = config;
  slot->service = core_->services.object_of(*slot->row);
  slot->memory = &engine.memory;
  engine.use_port(*slot, config.port);
  slot->rx.strict_acks.use(engine.strict_acks);
  engine.enlist(*slot);
  if (slot->row->serves_domain) {
    core_->srqs.enter(config.xrcd);
    return slot.get();
  }
  ++core_->pd_qps[config.pd.value()];
  if (engine.spaces != nullptr) engine.spaces->open_qp(config.pd);
  ++config.send_cq->users;
  ++config.recv_cq->users;
  if (config.srq != nullptr) ++config.srq->users;
  if (config.hold_places) config.send_cq->frees_places = config.recv_cq->frees_places = true;
  if (config.srq != nullptr && config.srq->config.hold_places) config.recv_cq->frees_places = true;
  return slot.get();
}

Refusable<> ChannelAdapter::destroy_qp(QueuePair* qp) {
  QpMemory memory;
  return destroy_qp(qp, memory);
}

Refusable<> ChannelAdapter::destroy_qp(QueuePair* qp, QpMemory& memory) {
  Engine& engine = core_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  if (qp->owner != &engine)
    return Refusal{Reason::kForeignObject, "destroy_qp: the QP belongs to another adapter"};
  if (qp->row->takes_raw_frames && core_->protocols.has(*qp))
    return Refusal{Reason::kBusy, "destroy_qp: the QP is registered for a protocol"};
  if (qp->row->joins_groups && engine.groups.has(*qp))
    return Refusal{Reason::kBusy, "destroy_qp: the QP is member of a multicast group; detach it first"};
  qp->service->say_last_words(*qp);
  qp->service->forget(*qp);
  if (qp->ways != nullptr) core_->ways->forget(*qp);
  forget_everything(engine, *qp);
  engine.delist(*qp);
  if (qp->row->serves_domain) {
    core_->srqs.leave(qp->config.xrcd);
  } else {
    --core_->pd_qps[qp->config.pd.value()];
    --qp->config.send_cq->users;
    --qp->config.recv_cq->users;
    if (qp->config.srq != nullptr) --qp->config.srq->users;
  }
  core_->numbers.give_back(qp->qpn, engine.now);
  memory.reset(core_->engine.qps.place_of(qp->qpn, qp->config.port).release());
  return {};
}

void ChannelAdapter::say_last_words() noexcept {
  for (QueuePair* qp : core_->engine.qps.all()) qp->service->say_last_words(*qp);
}

ModifyResult ChannelAdapter::modify_qp(QueuePair& qp, const QpAttr& attr, uint32_t mask) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  return qp.owner == &core_->engine ? core_->modify(qp, attr, mask) : Reason::kForeignObject;
}

QpAttr ChannelAdapter::query_qp(const QueuePair& qp) const {
  QpAttr attr = qp.attr;
  attr.state = attr.cur_state = qp.state;
  attr.sq_draining = qp.state == QpState::kSqd && !Completer::drained(qp);
  return attr;
}

const QpConfig& ChannelAdapter::config(const QueuePair& qp) const noexcept {
  return qp.config;
}

bool ChannelAdapter::uses_window(const QueuePair& qp) const noexcept {
  return qp.row == &kRcDirectRow;
}

Qpn ChannelAdapter::qpn(const QueuePair& qp) const noexcept {
  return qp.qpn;
}

QueuePair* ChannelAdapter::find_qp(Qpn number) const noexcept {
  return core_->engine.qps.find(number);
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
const CounterSet<AdapterCounter>& ChannelAdapter::counters() const noexcept {
  return core_->engine.counters;
}
const CounterSet<CellError>& ChannelAdapter::bad_cells() const noexcept {
  return core_->engine.bad_cells;
}
const CounterSet<AccessFault>& ChannelAdapter::access_faults() const noexcept {
  return core_->engine.faults;
}

bool ChannelAdapter::publish(StatsPage& page, std::string_view prefix) {
  const std::string name(prefix);
  return page.publish(name, core_->engine.counters) &&
         page.publish(name + ".bad_cell", core_->engine.bad_cells) &&
         page.publish(name + ".refused", core_->engine.faults);
}

bool ChannelAdapter::publish(StatsPage& page, std::string_view prefix, QueuePair& qp) {
  return page.publish(prefix, qp.counters);
}

CqInfo ChannelAdapter::query_cq(const CompletionQueue& cq) const noexcept {
  return {.depth = cq.depth(), .fill = cq.fill(), .overrun = cq.overrun()};
}

uint32_t ChannelAdapter::loads(const CompletionQueue& cq, std::span<QpLoad> out) const noexcept {
  uint32_t count = 0;
  for (const QueuePair* qp : core_->engine.qps.all()) {
    const bool sends = qp->config.send_cq == &cq;
    const bool receives = qp->config.recv_cq == &cq;
    if (!sends && !receives) continue;
    if (count++ >= out.size()) continue;
    const RecvQueue& queue = qp->config.srq != nullptr ? qp->config.srq->queue : qp->own_rq;
    out[count - 1] = {.qpn = qp->qpn,
                      .state = qp->state,
                      .sends_here = sends,
                      .receives_here = receives,
                      .sends = static_cast<uint32_t>(qp->sq.posted - qp->sq.done),
                      .silent = qp->sq.unpolled(),
                      .receives = queue.fill()};
  }
  return count;
}

uint32_t ChannelAdapter::ports() const noexcept {
  return static_cast<uint32_t>(core_->engine.ports.size());
}

const fabric::CellPortInfo* ChannelAdapter::port_info(uint8_t port) const noexcept {
  if (port == 0 || port > ports() || !core_->engine.ports[port - 1U]->known()) return nullptr;
  return &core_->engine.ports[port - 1U]->info();
}

bool ChannelAdapter::port_up(uint8_t port) const noexcept {
  return port != 0 && port <= ports() && core_->engine.ports[port - 1U]->up();
}

Refusable<> ChannelAdapter::set_lid(uint8_t port, Lid base, uint8_t lmc) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_lid: no such port"};
  AdapterPort& at = *core_->engine.ports[port - 1U];
  if (!at.linked()) return Refusal{Reason::kWrongMoment, "set_lid: the link is down"};
  if (lmc > kLmcMax || base == kLidNone || is_multicast(base) || (base.value() & ((1U << lmc) - 1)) != 0)
    return Refusal{Reason::kBadAddress,
                   "set_lid: not a unicast LID, LMC above 7, or LID bits below the LMC set"};
  at.set_lid(base, lmc);
  core_->port_changed(at, AsyncEventKind::kLidChange);
  return {};
}

Refusable<> ChannelAdapter::set_port_state(uint8_t port, PortState state) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_port_state: no such port"};
  AdapterPort& at = *core_->engine.ports[port - 1U];
  if (!at.linked() || state == PortState::kDown)
    return Refusal{Reason::kWrongMoment, "set_port_state: only the link can make the port Down"};
  const bool was_up = at.up();
  at.set_state(state);
  if (at.up() != was_up)
    core_->port_changed(at, was_up ? AsyncEventKind::kPortDown : AsyncEventKind::kPortUp);
  return {};
}

Refusable<> ChannelAdapter::set_service_lanes(uint8_t port, const ServiceLanes& lanes) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_service_lanes: no such port"};
  AdapterPort& at = *core_->engine.ports[port - 1U];
  for (const VirtualLane lane : lanes) {
    if (lane.value() >= std::max(at.info().lanes, 1U))
      return Refusal{Reason::kNoSuchObject, "set_service_lanes: the link has no such lane"};
  }
  at.set_lanes(lanes);
  core_->begin_sweep();
  return {};
}

Refusable<> ChannelAdapter::set_pkeys(uint8_t port, std::span<const uint16_t> pkeys) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_pkeys: no such port"};
  if (pkeys.empty() || pkeys.size() > kPkeysPerPort)
    return Refusal{Reason::kBadSize, "set_pkeys: a port has 1 to {} partitions", kPkeysPerPort};
  core_->set_pkeys(*core_->engine.ports[port - 1U], pkeys);
  return {};
}

std::span<const uint16_t> ChannelAdapter::pkeys(uint8_t port) const noexcept {
  if (port == 0 || port > ports()) return {};
  return core_->engine.ports[port - 1U]->pkeys();
}

Refusable<> ChannelAdapter::attach_mcast(QueuePair& qp, const Gid& gid, Lid lid) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (qp.owner != &core_->engine || !qp.row->joins_groups)
    return Refusal{Reason::kNotOfService, "attach_mcast: only UD QPs of this adapter can be members"};
  if (!is_multicast(lid) || !is_multicast(gid))
    return Refusal{Reason::kBadAddress, "attach_mcast: no multicast LID or Gid"};
  if (!core_->engine.groups.attach(qp.port, lid, {gid, &qp}))
    return Refusal{Reason::kTableFull,
                   "attach_mcast: no more memberships; raise AdapterLimits::multicast_members"};
  return {};
}

Refusable<> ChannelAdapter::detach_mcast(QueuePair& qp, const Gid& gid, Lid lid) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (!core_->engine.groups.detach(qp.port, lid, {gid, &qp}))
    return Refusal{Reason::kNotMember, "detach_mcast: the QP is not a member of the group"};
  return {};
}

void ChannelAdapter::leave_groups(QueuePair& qp) noexcept {
  core_->engine.groups.leave(qp);
}

Refusable<> ChannelAdapter::register_protocol(QueuePair& qp, uint8_t next_header, const Gid& address) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (qp.owner != &core_->engine || !qp.row->takes_raw_frames)
    return Refusal{Reason::kNotOfService, "register_protocol: only RAW QPs of this adapter take raw frames"};
  if (!core_->protocols.add({qp.port, next_header, address}, qp))
    return Refusal{
        Reason::kTaken,
        "register_protocol: another QP has the protocol, or all AdapterLimits::raw_protocols are in use"};
  return {};
}

Refusable<> ChannelAdapter::unregister_protocol(QueuePair& qp, uint8_t next_header, const Gid& address) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (!core_->protocols.remove({qp.port, next_header, address}, qp))
    return Refusal{Reason::kNotMember, "unregister_protocol: the QP is not registered for it"};
  return {};
}

Refusable<AddressHandle> ChannelAdapter::make_ah(PdId pd, const AhAttr& attr) {
  core_->engine.count(AdapterCounter::kAgentCalls);
  if (pd.value() >= core_->pds.size() || !core_->pds[pd.value()])
    return Refusal{Reason::kNoSuchObject, "make_ah: no such protection domain"};
  if (attr.port == 0 || attr.port > ports())
    return Refusal{Reason::kNoSuchObject, "make_ah: port {}; 1 to {} are possible", attr.port, ports()};
  if (attr.dlid == kLidNone || attr.dlid.value() > kLidMax || attr.sl.value() >= kVlCount)
    return Refusal{Reason::kBadAddress,
                   "make_ah: dlid {} or sl {} is out of range: dlid 1 to 0xFFFE (the lid of the peer's "
                   "ibv_query_port), sl 0 to 15",
                   attr.dlid.value(), attr.sl.value()};
  if (is_multicast(attr.dlid) && attr.is_global != is_multicast(attr.route.dgid))
    return Refusal{Reason::kBadAddress, "make_ah: with a multicast LID the global route must name a group"};
  if (attr.is_global && (attr.route.flow_label >> 20) != 0)
    return Refusal{Reason::kBadAddress, "make_ah: a flow label has 20 bits"};
  return AddressHandle{.pd = pd, .attr = attr};
}

namespace {

bool lacks_keys(const Engine& engine) noexcept {
  return engine.memory.lacks_room() || std::any_of(engine.more_memory.begin(), engine.more_memory.end(),
                                                   [](const auto& list) { return list->lacks_room(); });
}

}  // namespace

uint32_t ChannelAdapter::lacks() const noexcept {
  const Engine& engine = core_->engine;
  return (lacks_keys(engine) ? kSupplyKeys : 0U) | (engine.tx_chunks.low() ? kSupplyTxPackets : 0U) |
         (engine.rx_chunks.low() ? kSupplyRxPackets : 0U) |
         (engine.strict_acks.low() ? kSupplyStrictAcks : 0U);
}

void ChannelAdapter::supply(Supplies& supplies) noexcept {
  Engine& engine = core_->engine;
  engine.memory.entries().give_room(supplies.keys);
  for (const auto& list : engine.more_memory) list->entries().give_room(supplies.keys);
  if (supplies.tx_packets != nullptr && engine.tx_chunks.low())
    engine.tx_chunks.add(std::move(supplies.tx_packets));
  if (supplies.rx_packets != nullptr && engine.rx_chunks.low())
    engine.rx_chunks.add(std::move(supplies.rx_packets));
  if (supplies.strict_acks != nullptr && engine.strict_acks.low())
    engine.strict_acks.add(std::move(supplies.strict_acks));
}

void ChannelAdapter::go_without() noexcept {
  core_->engine.tx_chunks.go_without();
  core_->engine.rx_chunks.go_without();
  core_->engine.strict_acks.go_without();
}

void ChannelAdapter::report_lack(bool& flag) noexcept {
  core_->engine.rx_chunks.keep(kCellsPerReceive);
  core_->engine.tx_chunks.report_to(flag);
  core_->engine.rx_chunks.report_to(flag);
  core_->engine.strict_acks.report_to(flag);
}

PostResult ChannelAdapter::post(QueuePair& qp, const SendRequest& request) noexcept {
  return core_->post(qp, request);
}
PostResult ChannelAdapter::post(QueuePair& qp, const RecvRequest& request) noexcept {
  return core_->post(qp, request);
}
void ChannelAdapter::ring_send(QueuePair& qp) noexcept {
  core_->ring_send(qp);
}
void ChannelAdapter::take_back_posts(QueuePair& qp) noexcept {
  core_->take_back_posts(qp);
}
void ChannelAdapter::ring_recv(QueuePair& qp) noexcept {
  core_->ring_recv(qp);
}

PostResult ChannelAdapter::post_send(QueuePair& qp, const SendRequest& request) noexcept {
  const PostResult result = core_->post(qp, request);
  if (result == PostResult::kOk) core_->ring_send(qp);
  return result;
}

PostResult ChannelAdapter::post_send(QueuePair& qp, std::span<const SendRequest> list,
                                     size_t& accepted) noexcept {
  PostResult result = PostResult::kOk;
  for (accepted = 0; accepted < list.size(); ++accepted) {
    result = core_->post(qp, list[accepted]);
    if (result != PostResult::kOk) break;
  }
  if (accepted != 0) core_->ring_send(qp);
  return result;
}

PostResult ChannelAdapter::post_recv(QueuePair& qp, const RecvRequest& request) noexcept {
  const PostResult result = core_->post(qp, request);
  if (result == PostResult::kOk) core_->ring_recv(qp);
  return result;
}

uint32_t ChannelAdapter::poll_cq(CompletionQueue& cq, std::span<WorkCompletion> out) noexcept {
  const uint32_t taken = cq.poll(out);
  if (taken != 0 && cq.frees_places) core_->free_places(out.first(taken));
  return taken;
}
void ChannelAdapter::arm_cq(CompletionQueue& cq, CqNotify when) noexcept {
  cq.arm(when);
}
bool ChannelAdapter::take_cq_notification(CompletionQueue& cq) noexcept {
  return cq.take_notification();
}

CompletionQueue* ChannelAdapter::next_notified_cq() noexcept {
  FixedRing<CompletionQueue*>& notified = core_->engine.notified;
  while (!notified.empty()) {
    CompletionQueue* cq = notified.front();
    notified.pop();
    if (cq->leave_list()) return cq;
  }
  return nullptr;
}

bool ChannelAdapter::next_failure(Failure& out) noexcept {
  return core_->engine.failures.take(out);
}

void ChannelAdapter::report_failures(bool& flag) noexcept {
  core_->engine.failures.report_to(flag);
}

bool ChannelAdapter::next_event(AsyncEvent& out) noexcept {
  return core_->engine.next_event(out);
}

int ChannelAdapter::poll(Instant now) noexcept {
  return core_->poll(now);
}

int ChannelAdapter::send_posted() noexcept {
  return core_->send_posted();
}
Instant ChannelAdapter::deadline() const noexcept {
  return core_->deadline();
}

}  // namespace weft::adapter
