// Objects of a program: domains, regions, queues and QPs, and how QPs are connected.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "adapter/limits.h"
#include "adapter/queues/shared_receives.h"
#include "sim/verbs/migration.h"
#include "sim/verbs/program.h"

namespace weft::sim::verbs {

using adapter::Access;
using adapter::QpState;
using adapter::QpType;

namespace {

using namespace std::chrono_literals;

constexpr Access kAllRemote = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
constexpr uint64_t kRegionBytesMin = 64 * 1024;
constexpr uint64_t kReservedBytesMax = 1024 * 1024;

}  // namespace

void Program::set_up() {
  for (auto& node : nodes_) add_node(*node);
  const uint32_t pairs = draw_.between(1, 3);
  for (uint32_t i = 0; i < pairs; ++i) add_pair();
  const uint32_t datagram = draw_.below(5);
  for (uint32_t i = 0; i < datagram; ++i) add_datagram_qp();
  const uint32_t extended = draw_.below(3);
  for (uint32_t i = 0; i < extended; ++i) add_extended_pair();
}

void Program::add_node(Node& node) {
  const bool lengthy = plan_.long_bytes_max != 0;
  const uint32_t domains = lengthy ? 1 : draw_.between(1, 2);
  const uint64_t room = std::max(uint64_t{plan_.bytes_max} * 24, uint64_t{plan_.long_bytes_max} * 6);
  const uint64_t bytes = std::max<uint64_t>(kRegionBytesMin, room / 4096 * 4096);
  for (uint32_t i = 0; i < domains; ++i) {
    node.pds.push_back(node.adapter->alloc_pd().value());
    add_region(node, node.pds.back(), bytes);
    if (!lengthy && draw_.chance(2)) add_region(node, node.pds.back(), bytes / 2);
    const uint32_t reserved = draw_.below(3);
    for (uint32_t k = 0; k < reserved; ++k)
      reserve_region(node, node.pds.back(), std::min(bytes, kReservedBytesMax) / 2);
  }
  const uint32_t queues = draw_.between(1, 4);
  for (uint32_t i = 0; i < queues; ++i) {
    auto cq = std::make_unique<Cq>();
    cq->node = &node;
    cq->depth = draw_.pick(std::array{16U, 64U, 256U, 1024U});
    cq->handle = node.adapter->cqs().create(cq->depth).value();
    node.cqs.push_back(std::move(cq));
  }
  const uint32_t shared = draw_.below(3);
  for (uint32_t i = 0; i < shared; ++i) add_srq(node, adapter::XrcdId());
  const uint32_t extended = draw_.below(3);
  for (uint32_t i = 0; i < extended; ++i) {
    node.xrcds.push_back(node.adapter->srqs().alloc_xrcd().value());
    const uint32_t queues_of_domain = draw_.between(1, 2);
    for (uint32_t k = 0; k < queues_of_domain; ++k) add_srq(node, node.xrcds.back());
  }
}

/// With a domain: a queue for XRC targets, with its own completion queue.
void Program::add_srq(Node& node, adapter::XrcdId xrcd) {
  auto srq = std::make_unique<Srq>();
  srq->pd = node.pds[draw_.below(node.pds.size())];
  srq->wqes = draw_.between(1, 48);
  srq->xrcd = xrcd;
  if (xrcd != adapter::XrcdId()) srq->cq = node.cqs[draw_.below(node.cqs.size())].get();
  adapter::SharedReceives& srqs = node.adapter->srqs();
  srq->handle = srqs.create({.pd = srq->pd,
                             .wqes = srq->wqes,
                             .sges = kSegmentsMax,
                             .xrcd = xrcd,
                             .cq = srq->cq != nullptr ? srq->cq->handle : nullptr})
                    .value();
  srq->number = srqs.number(*srq->handle);
  node.srqs.push_back(std::move(srq));
}

void Program::add_region(Node& node, adapter::PdId pd, uint64_t bytes) {
  Access rights = Access::kLocalWrite | Access::kWindowBind | kAllRemote;
  if (draw_.chance(6))
    rights = Access::kLocalWrite | Access::kWindowBind |
             draw_.pick(std::array{Access::kRemoteWrite, Access::kRemoteRead});
  auto region = std::make_unique<Region>(node, pd, bytes, rights);
  if (register_region(*region)) node.regions.push_back(std::move(region));
}

/// A region that work requests will fill.
void Program::reserve_region(Node& node, adapter::PdId pd, uint64_t bytes) {
  auto region = std::make_unique<Region>(node, pd, bytes, Access::kNone);
  region->reserved = true;
  region->pages = draw_.chance(2);
  keys_.reserve(*region);
  node.regions.push_back(std::move(region));
}

bool Program::register_region(Region& region) {
  const uint64_t base = 0x1000'0000'0000ULL + (uint64_t{draw_.below(uint64_t{1} << 30)} << 13);
  auto made = region.node.adapter->memory().regions.reg_mr(region.pd, {region.at(0), region.bytes},
                                                           region.rights, {.base_addr = base});
  if (!made.ok()) {
    model_.fail("a region could not be registered: " + made.error().text());
    return false;
  }
  region.mr = made.value();
  region.registered = true;
  ++region.registrations;
  region.key = std::make_shared<Key>(
      Key{region.mr.rkey, &region, 0, region.bytes, region.rights, Key::State::kGood, false});
  tally_("region registered");
  return true;
}

adapter::QpConfig Program::draw_config(QpType type) {
  adapter::QpConfig config;
  config.type = type;
  config.send_wqes = draw_.pick(std::array{1U, 4U, 16U, 64U});
  config.recv_wqes = draw_.pick(std::array{1U, 4U, 16U, 64U});
  config.sges = 16;
  config.empty_lists = true;
  config.signal_all = draw_.chance(2);
  if (adapter::is_acknowledged(type) && draw_.chance(4)) config.ack_mode = adapter::AckMode::kStrict;
  if (adapter::is_connected(type)) {
    using adapter::SendRegistration;
    config.packet_crc = draw_.chance(6) && !adapter::is_xrc(type);
    config.registration =
        draw_.pick(std::array{SendRegistration::kAnticipatory, SendRegistration::kAnticipatory,
                              SendRegistration::kReactive, SendRegistration::kOff});
    if (draw_.chance(4)) config.packet_bytes = plan_.fabric.cell_payload_bytes * draw_.between(1, 8);
  }
  return config;
}

Qp* Program::add_qp(Node& node, adapter::QpConfig config) {
  auto made = std::make_unique<Qp>();
  Qp& qp = *made;
  qp.id = next_qp_++;
  qp.node = &node;
  qp.port = static_cast<uint8_t>(1 + draw_.below(node.lids.size()));
  qp.lid = node.lids[qp.port - 1U];
  if (config.type != QpType::kXrcRecv) draw_queues(qp, config);
  qp.config = config;
  auto created = node.adapter->create_qp(config);
  if (!created.ok()) {
    model_.fail("a QP could not be created: " + created.error().text());
    return nullptr;
  }
  qp.handle = created.value();
  qp.qpn = node.adapter->qpn(*qp.handle);
  qp.rights = draw_.chance(8) ? Access::kRemoteWrite : kAllRemote;
  qp.qkey = 0x1000 + draw_.below(3);
  node.qps.push_back(std::move(made));
  note(node, fmt::format("create QP {} ({:06x}), type {}", qp.id, qp.qpn.value(), type_name(config.type)));
  return &qp;
}

/// Chooses the QP's completion queues and domain, and perhaps a shared receive queue.
void Program::draw_queues(Qp& qp, adapter::QpConfig& config) {
  Node& node = *qp.node;
  qp.send_cq = node.cqs[draw_.below(node.cqs.size())].get();
  qp.recv_cq = node.cqs[draw_.below(node.cqs.size())].get();
  if (!node.srqs.empty() && config.type != QpType::kXrcSend && draw_.chance(3)) {
    Srq& srq = *node.srqs[draw_.below(node.srqs.size())];
    // All receives in the shared queue may complete in the new QP's CQ.
    if (srq.cq == nullptr && room(*qp.recv_cq) >= srq.receives.size()) qp.srq = &srq;
  }
  config.pd = node.pds[draw_.below(node.pds.size())];
  config.send_cq = qp.send_cq->handle;
  config.recv_cq = qp.recv_cq->handle;
  if (qp.srq != nullptr) config.srq = qp.srq->handle;
}

/// An XRC initiator and its target; an ordinary pair if the drawn node has no XRC domain.
void Program::add_extended_pair() {
  Node& one = any_node();
  Node& other = any_node();
  if (other.xrcds.empty()) return add_pair();
  const adapter::QpConfig config = draw_config(QpType::kXrcSend);
  adapter::QpConfig target;
  target.type = QpType::kXrcRecv;
  target.xrcd = other.xrcds[draw_.below(other.xrcds.size())];
  target.ack_mode = config.ack_mode;
  target.packet_bytes = config.packet_bytes;
  Qp* initiator = add_qp(one, config);
  join(initiator, add_qp(other, target));
}

/// Two connected QPs, sometimes both on one node.
void Program::add_pair() {
  const adapter::QpConfig config = draw_config(draw_.chance(4) ? QpType::kUc : QpType::kRc);
  Node& one = any_node();
  add_pair_of(one, any_node(), config);
}

void Program::add_pair_of(Node& one, Node& other, const adapter::QpConfig& config) {
  Qp* a = add_qp(one, config);
  adapter::QpConfig config_b = config;
  config_b.send_wqes = draw_.pick(std::array{1U, 4U, 16U, 64U});
  config_b.signal_all = draw_.chance(2);
  Qp* b = add_qp(other, config_b);
  join(a, b);
}

void Program::join(Qp* a, Qp* b) {
  if (a == nullptr || b == nullptr) return;
  a->peer = b;
  b->peer = a;
  connect(*a);
}

void Program::add_datagram_qp() {
  add_datagram_qp_of(any_node());
}

void Program::add_datagram_qp_of(Node& node) {
  Qp* qp = add_qp(node, draw_config(draw_.chance(2) ? QpType::kUd : QpType::kRd));
  if (qp != nullptr) connect(*qp);
}

/// Moves a QP and its peer, or a single datagram QP, from RESET to RTS.
bool Program::connect(Qp& qp) {
  const auto reads = static_cast<uint8_t>(draw_.between(1, 16));
  if (qp.peer == nullptr) {
    model_.begins(qp);
    qp.epoch = ++epochs_;
    qp.routes[0] = route_of(qp, qp.port, qp, qp.port);
    const bool up = bring_up(qp, nullptr, reads);
    give_receives(qp, draw_.below(8));
    return up;
  }
  for (Qp* end : {&qp, qp.peer}) {
    model_.begins(*end);
    end->epoch = ++epochs_;
    end->routes[0] = route_of(*end, end->port, *end->peer, end->peer->port);
  }
  const bool two_each = qp.node->lids.size() > 1 && qp.peer->node->lids.size() > 1;
  qp.finds_ways = qp.peer->finds_ways = plan_.finds_ways && qp.config.type == QpType::kRc && two_each;
  if (plan_.migration_ppm != 0) choose_alternate(draw_, qp, *qp.peer);
  qp.unprotected = qp.peer->unprotected = model_.links().fails(qp.routes[0]);
  const bool up = bring_up(qp, qp.peer, reads) && bring_up(*qp.peer, &qp, reads);
  for (Qp* end : {&qp, qp.peer}) give_receives(*end, draw_.below(8));
  return up;
}

bool Program::modify(Qp& qp, const adapter::QpAttr& wanted, uint32_t mask, bool must) {
  adapter::QpAttr attr = wanted;
  if (saboteur_ != nullptr) saboteur_->on_attributes(attr, mask);
  const adapter::ModifyResult result = qp.node->adapter->modify_qp(*qp.handle, attr, mask);
  touched_ |= uint64_t{1} << qp.node->place;
  if (result != adapter::ModifyResult::kOk && must)
    model_.fail(fmt::format("QP {} was not modified: {}", qp.id, to_string(result)));
  return result == adapter::ModifyResult::kOk;
}

bool Program::bring_up(Qp& qp, const Qp* peer, uint8_t reads) {
  const bool acknowledged = qp.acknowledged();
  const auto psn_to = [](const Qp& from, const Qp& to) {
    return Psn(static_cast<uint32_t>(from.epoch * 7'919 + to.epoch * 104'729));
  };
  adapter::QpAttr attr;
  attr.state = QpState::kInit;
  attr.access = qp.rights;
  attr.qkey = qp.qkey;
  attr.port = qp.port;
  uint32_t mask = adapter::kQpAttrState | adapter::kQpAttrPort | adapter::kQpAttrPkeyIndex |
                  (peer != nullptr ? adapter::kQpAttrAccess : adapter::kQpAttrQkey);
  if (qp.config.type == QpType::kRd) mask |= adapter::kQpAttrAccess;
  if (!modify(qp, attr, mask)) return false;
  attr.state = QpState::kRtr;
  mask = adapter::kQpAttrState;
  if (peer != nullptr) {
    attr.dlid = peer->lid;
    attr.sl = ServiceLevel(static_cast<uint8_t>(std::min(qp.epoch, peer->epoch) % 4));
    attr.dest_qpn = peer->qpn;
    attr.rq_psn = psn_to(*peer, qp);
    mask |=
        adapter::kQpAttrAddress | adapter::kQpAttrPathMtu | adapter::kQpAttrDestQpn | adapter::kQpAttrRqPsn;
  }
  const bool target = qp.is_target();
  if (acknowledged && !qp.is_initiator()) mask |= adapter::kQpAttrMinRnrTimer;
  attr.min_rnr_timer = draw_.pick(std::array<Duration, 3>{20us, 100us, 1ms});
  attr.max_dest_rd_atomic = reads;
  if (qp.config.type == QpType::kRc || target) mask |= adapter::kQpAttrMaxDestRdAtomic;
  if (!modify(qp, attr, mask)) return false;
  attr.state = QpState::kRts;
  attr.sq_psn = peer != nullptr ? psn_to(qp, *peer) : Psn(draw_.below(1U << 24));
  mask = adapter::kQpAttrState | adapter::kQpAttrSqPsn;
  // The timeout is long where cells are lost, because a QP must not give up after lost cells alone.
  attr.ack_timeout = plan_.loses_cells() ? 400ms : draw_.pick(std::array<Duration, 2>{20ms, 80ms});
  attr.rnr_retry = qp.rnr_retry = draw_.chance(8) ? static_cast<uint8_t>(draw_.below(7)) : 7;
  qp.patience = attr.ack_timeout * (attr.retry_count + 1);
  if (std::exchange(qp.loaded, false)) load_alternate(qp, model_.links(), attr, mask, model_.time());
  if (acknowledged) mask |= adapter::kQpAttrTimeout;
  if (acknowledged && !target) mask |= adapter::kQpAttrRetryCount | adapter::kQpAttrRnrRetry;
  attr.max_rd_atomic = reads;
  if (qp.config.type == QpType::kRc || qp.is_initiator()) mask |= adapter::kQpAttrMaxRdAtomic;
  note(*qp.node,
       fmt::format("QP {} comes up{}", qp.id, peer != nullptr ? fmt::format(" to QP {}", peer->id) : ""));
  return modify(qp, attr, mask);
}

void Program::give_receives(Qp& qp, uint32_t count) {
  if (qp.is_initiator()) return;
  const std::vector<Srq*> shared = qp.shared_queues();
  for (uint32_t i = 0; i < count; ++i)
    post_receive(qp, shared.empty() ? nullptr : shared[draw_.below(shared.size())], true);
}

}  // namespace weft::sim::verbs
