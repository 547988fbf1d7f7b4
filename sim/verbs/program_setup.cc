// Objects of a program: domains, regions, queues, QPs and how they come to life.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "adapter/limits.h"
#include "adapter/queues/shared_receives.h"
#include "sim/verbs/program.h"

namespace weft::sim::verbs {

using adapter::Access;
using adapter::QpState;
using adapter::QpType;

namespace {

using namespace std::chrono_literals;

constexpr Access kAllRemote = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
constexpr uint64_t kRegionBytesMin = 64 * 1024;

}  // namespace

void Program::set_up() {
  for (auto& node : nodes_) add_node(*node);
  const uint32_t pairs = draw_.between(1, 3);
  for (uint32_t i = 0; i < pairs; ++i) add_pair();
  const uint32_t datagram = draw_.below(5);
  for (uint32_t i = 0; i < datagram; ++i) add_datagram_qp();
}

void Program::add_node(Node& node) {
  const uint32_t domains = draw_.between(1, 2);
  const uint64_t bytes = std::max<uint64_t>(kRegionBytesMin, uint64_t{plan_.bytes_max} * 24 / 4096 * 4096);
  for (uint32_t i = 0; i < domains; ++i) {
    node.pds.push_back(node.adapter->alloc_pd().value());
    add_region(node, node.pds.back(), bytes, true);
    if (draw_.chance(2)) add_region(node, node.pds.back(), bytes / 2, true);
  }
  const uint32_t queues = draw_.between(1, 4);
  for (uint32_t i = 0; i < queues; ++i) {
    auto cq = std::make_unique<Cq>();
    cq->node = &node;
    cq->depth = draw_.pick(std::array{16U, 64U, 256U, 1024U});
    cq->handle = node.adapter->create_cq(cq->depth).value();
    node.cqs.push_back(std::move(cq));
  }
  const uint32_t shared = draw_.below(3);
  for (uint32_t i = 0; i < shared; ++i) {
    auto srq = std::make_unique<Srq>();
    srq->pd = node.pds[draw_.below(node.pds.size())];
    srq->wqes = draw_.between(1, 48);
    srq->handle = node.adapter->srqs().create({.pd = srq->pd, .wqes = srq->wqes, .sges = 16}).value();
    node.srqs.push_back(std::move(srq));
  }
}

void Program::add_region(Node& node, adapter::PdId pd, uint64_t bytes, bool shared) {
  Access rights = Access::kLocalWrite | Access::kWindowBind | kAllRemote;
  if (shared && draw_.chance(6))
    rights = Access::kLocalWrite | Access::kWindowBind |
             draw_.pick(std::array{Access::kRemoteWrite, Access::kRemoteRead});
  auto region = std::make_unique<Region>(node, pd, bytes, rights, shared);
  if (register_region(*region)) node.regions.push_back(std::move(region));
}

bool Program::register_region(Region& region) {
  const uint64_t base = 0x1000'0000'0000ULL + (uint64_t{draw_.below(uint64_t{1} << 30)} << 13);
  auto made = region.node.adapter->memory().reg_mr(region.pd, {region.at(0), region.bytes}, region.rights,
                                                   {.base_addr = base});
  if (!made.ok()) {
    model_.fail("a region could not be registered: " + made.error().text);
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
    config.packet_crc = draw_.chance(6);
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
  qp.send_cq = node.cqs[draw_.below(node.cqs.size())].get();
  qp.recv_cq = node.cqs[draw_.below(node.cqs.size())].get();
  if (!node.srqs.empty() && draw_.chance(3)) qp.srq = node.srqs[draw_.below(node.srqs.size())].get();
  config.pd = node.pds[draw_.below(node.pds.size())];
  config.send_cq = qp.send_cq->handle;
  config.recv_cq = qp.recv_cq->handle;
  if (qp.srq != nullptr) config.srq = qp.srq->handle;
  qp.config = config;
  auto created = node.adapter->create_qp(config);
  if (!created.ok()) {
    model_.fail("a QP could not be created: " + created.error().text);
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

/// Two QPs that talk; now and then both on one node.
void Program::add_pair() {
  const QpType type = draw_.chance(4) ? QpType::kUc : QpType::kRc;
  const adapter::QpConfig config = draw_config(type);
  Node& one = *nodes_[draw_.below(nodes_.size())];
  Node& other = *nodes_[draw_.below(nodes_.size())];
  Qp* a = add_qp(one, config);
  adapter::QpConfig config_b = config;
  config_b.send_wqes = draw_.pick(std::array{1U, 4U, 16U, 64U});
  config_b.signal_all = draw_.chance(2);
  Qp* b = add_qp(other, config_b);
  if (a == nullptr || b == nullptr) return;
  a->peer = b;
  b->peer = a;
  connect(*a);
}

void Program::add_datagram_qp() {
  Qp* qp =
      add_qp(*nodes_[draw_.below(nodes_.size())], draw_config(draw_.chance(2) ? QpType::kUd : QpType::kRd));
  if (qp != nullptr) connect(*qp);
}

/// From RESET: a QP and its peer, or a datagram QP alone.
bool Program::connect(Qp& qp) {
  const auto reads = static_cast<uint8_t>(draw_.between(1, 16));
  if (qp.peer == nullptr) {
    model_.begins(qp);
    qp.epoch = ++epochs_;
    const bool up = bring_up(qp, nullptr, reads);
    give_receives(qp, draw_.below(8));
    return up;
  }
  for (Qp* end : {&qp, qp.peer}) {
    model_.begins(*end);
    end->epoch = ++epochs_;
  }
  const bool up = bring_up(qp, qp.peer, reads) && bring_up(*qp.peer, &qp, reads);
  for (Qp* end : {&qp, qp.peer}) give_receives(*end, draw_.below(8));
  return up;
}

bool Program::modify(Qp& qp, const adapter::QpAttr& attr, uint32_t mask, bool must) {
  const adapter::ModifyResult result = qp.node->adapter->modify_qp(*qp.handle, attr, mask);
  touched_ |= uint64_t{1} << qp.node->number;
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
  if (acknowledged) mask |= adapter::kQpAttrMinRnrTimer;
  attr.min_rnr_timer = draw_.pick(std::array<Duration, 3>{20us, 100us, 1ms});
  attr.max_dest_rd_atomic = reads;
  if (qp.config.type == QpType::kRc) mask |= adapter::kQpAttrMaxDestRdAtomic;
  if (!modify(qp, attr, mask)) return false;
  attr.state = QpState::kRts;
  attr.sq_psn = peer != nullptr ? psn_to(qp, *peer) : Psn(draw_.below(1U << 24));
  mask = adapter::kQpAttrState | adapter::kQpAttrSqPsn;
  // Whoever gives up after lost cells alone would break what is promised: time enough where cells are lost.
  attr.ack_timeout = plan_.loses() ? 400ms : draw_.pick(std::array<Duration, 2>{20ms, 80ms});
  attr.rnr_retry = qp.rnr_retry = draw_.chance(8) ? static_cast<uint8_t>(draw_.below(7)) : 7;
  if (acknowledged) mask |= adapter::kQpAttrTimeout | adapter::kQpAttrRetryCount | adapter::kQpAttrRnrRetry;
  attr.max_rd_atomic = reads;
  if (qp.config.type == QpType::kRc) mask |= adapter::kQpAttrMaxRdAtomic;
  note(*qp.node,
       fmt::format("QP {} comes up{}", qp.id, peer != nullptr ? fmt::format(" to QP {}", peer->id) : ""));
  return modify(qp, attr, mask);
}

void Program::give_receives(Qp& qp, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) post_receive(qp, true);
}

}  // namespace weft::sim::verbs
