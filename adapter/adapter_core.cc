// How it works: one turn looks at the ports, takes arrived cells, lets QPs with work send, sends
// acknowledgements, runs timers and flushes. The low bits of a cell's QPN select the QP. The full number is
// compared, so an old number finds no QP. A connected QP takes cells only from its bound peer; that is
// checked before PSN and key (PUSH-CHAN-07).
#include "adapter/adapter_core.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "adapter/key_questions.h"
#include "adapter/loopback_port.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/transport/path_migration.h"
#include "base/log.h"
#include "messages/ipv6_frame.h"
#include "messages/multicast.h"

namespace weft::adapter {

AdapterCore::AdapterCore(const AdapterConfig& config, RandomSource& random)
    : engine(config, random),
      questions(config.nics.size() > 1 ? std::make_unique<KeyQuestions>(engine, config.nics) : nullptr),
      writer(engine),
      ways(questions != nullptr ? std::make_unique<Ways>(engine, writer) : nullptr),
      services(config.services, engine, writer),
      pds(config.limits.protection_domains + 1),
      srqs(engine, pds, cqs),
      pd_qps(config.limits.protection_domains + 1),
      no_cq(1),
      numbers(config.limits.queue_pairs, engine.qps.places(), random),
      protocols(config.limits.raw_protocols),
      reliable_(static_cast<ReliableService*>(services.object_of(kRcRow))),
      direct_(static_cast<DirectService*>(services.object_of(kRcDirectRow))) {
  engine.questions = questions.get();
  engine.ways = ways.get();
  cqs.reserve(config.limits.completion_queues);
  if (direct_ != nullptr && reliable_ != nullptr) direct_->fall_back_to(*reliable_);
}

void AdapterCore::attach(fabric::CellPort& link, uint8_t nic) {
  const auto number = static_cast<uint8_t>(engine.ports.size() + 1);
  engine.ports.push_back(
      std::make_unique<AdapterPort>(link, std::make_unique<LoopbackPort>(kLoopbackCells), number, nic));
  engine.port_events.emplace_back(number);
  engine.qps.add_port();
  engine.schedule.add_port();
  if (link.up()) port_came_up(*engine.ports.back());
}

int AdapterCore::poll(Instant now) noexcept {
  engine.now = now;
  int work = watch_ports();
  if (sweep_left_ != 0) [[unlikely]]
    sweep();
  if (engine.questions != nullptr) [[unlikely]]
    work += take_answered_cells() + ways->run();
  for (const auto& port : engine.ports) {
    if (port->linked() && engine.ready_to_receive()) work += receive_cells(port->link(), *port);
  }
  for (const auto& port : engine.ports) {
    if (engine.ready_to_receive()) work += receive_cells(port->loopback(), *port);
  }
  // After the receives: cells bring credit, and a loopback has room once it is read.
  engine.schedule.wake_waiting();
  work += run_timers();
  // Before data: with one credit per lane, data would leave no credit for acknowledgements.
  work += send_acks();
  work += send_cells();
  if (std::exchange(engine.overrun_news, false)) [[unlikely]] {
    overrun_ = true;
    begin_sweep();
    sweep();
  }
  flush_ports();
  if (work == 0) engine.timers.drop_resting();
  return work;
}

int AdapterCore::send_posted() noexcept {
  if (engine.schedule.sends.empty()) return 0;
  const int sent = send_cells();
  if (sent != 0) flush_ports();
  return sent;
}

int AdapterCore::look_at_windows(Instant now) noexcept {
  if (direct_ == nullptr || !direct_->has_news(now)) return 0;
  engine.now = now;
  return static_cast<int>(direct_->run_turn());
}

bool AdapterCore::send_by_window(QueuePair& qp, Instant now) noexcept {
  if (qp.row != &kRcDirectRow) return false;
  if (!engine.schedule.sends.holds(qp)) return true;
  engine.now = now;
  SendList::unlink(qp);
  bool blocked = false;
  const uint32_t steps = direct_->run(qp, kCellsPerQpTurn, blocked);
  if (steps != 0 && (qp.answers || has_work(qp))) engine.schedule.want_send(qp);
  return true;
}

int AdapterCore::watch_ports() noexcept {
  int work = 0;
  for (const auto& port : engine.ports) {
    work += port->link().poll(engine.now);
    const bool up = port->link().up();
    if (up && port->has_news()) {
      port_came_up(*port);
    } else if (!up && port->linked()) {
      port_went_down(*port);
    } else if (engine.now >= port->expires_at()) {
      expire_port(*port);
    }
  }
  return work;
}

void AdapterCore::port_came_up(AdapterPort& port) noexcept {
  const AdapterPort::News news = port.came_up();
  if (news.lid) engine.raise(port, AsyncEventKind::kLidChange);
  if (news.gid) engine.raise(port, AsyncEventKind::kGidChange);
  if (news.link) engine.raise(port, AsyncEventKind::kClientReregister);
  port_changed(port, AsyncEventKind::kPortUp);
}

void AdapterCore::port_changed(const AdapterPort& port, AsyncEventKind kind) noexcept {
  engine.raise(port, kind);
  begin_sweep();
}

void AdapterCore::port_went_down(AdapterPort& port) noexcept {
  port.went_down(engine.now);
  engine.count(AdapterCounter::kPortDowns);
  port_changed(port, AsyncEventKind::kPortDown);
}

void AdapterCore::expire_port(AdapterPort& port) noexcept {
  port.expire();
  engine.count(AdapterCounter::kPortExpired);
  port_changed(port, AsyncEventKind::kPortExpired);
}

void AdapterCore::begin_sweep() noexcept {
  sweep_again_ = sweep_left_ != 0;
  if (sweep_left_ == 0) sweep_left_ = engine.qps.all().size();
}

/// Tells the next QPs about a change. A change for all QPs is spread over several turns, so that a turn's
/// cost does not depend on their number.
void AdapterCore::sweep() noexcept {
  for (uint32_t told = 0; told < kSweptPerTurn && sweep_left_ > 0; ++told) {
    sweep_left_ = std::min(sweep_left_, engine.qps.all().size());
    if (sweep_left_ > 0) tell(*engine.qps.all()[--sweep_left_]);
  }
  if (sweep_left_ != 0) return;
  if (std::exchange(sweep_again_, false)) return begin_sweep();
  if (!std::exchange(overrun_, false)) return;
  for (const auto& cq : cqs) {
    if (cq != nullptr) cq->fails_users = false;
  }
}

void AdapterCore::tell(QueuePair& qp) noexcept {
  const bool lives = qp.state != QpState::kReset && qp.state != QpState::kErr;
  if (lives && (qp.config.send_cq->fails_users || qp.config.recv_cq->fails_users)) {
    return fail_qp(qp, Reason::kCqOverrun);  // a completion of the QP was lost
  }
  const AdapterPort& port = engine.port_of(qp);
  const bool armed = qp.attr.path_mig_state == PathMigState::kArmed && !qp.path.loops && lives;
  // If the other path is of no use either, the QP waits for its port until the port expires.
  if (!port.up() && port.known() && armed && (move_path(qp) || !port.expired())) return;
  if (!port.up() && port.known() && qp.ways != nullptr) ways->search(qp);
  if (std::exchange(qp.port_seen, port.change()) == port.change()) return;
  if (port.expired()) {
    expire(qp);
  } else if (port.up()) {
    renew(qp);
  }
}

/// The QP's port has come up: missing packets are sent again at once.
void AdapterCore::renew(QueuePair& qp) noexcept {
  (void)engine.path_ready(qp);
  // Packets in flight were cut for another cell size and cannot be repeated.
  if (qp.other_cells) return fail_qp(qp, Reason::kCellsChanged);
  engine.schedule.wait_no_more(qp);
  if (!qp.abilities().finish_send) return;
  qp.service->repeat_by_new_link(qp);
  engine.schedule.want_send(qp);
}

void AdapterCore::expire(QueuePair& qp) noexcept {
  if (!qp.acknowledged() || !qp.abilities().receive || qp.path.loops) return;
  qp.service->fail_oldest(qp, {Reason::kPortDown});
  fail_qp(qp, Reason::kPortDown);
}

/// The QP's path is of no use any more: switches to the alternate path and repeats missing packets there.
bool AdapterCore::move_path(QueuePair& qp) noexcept {
  if (!migrate(engine, qp)) return false;
  if (qp.abilities().finish_send) qp.service->repeat_all(qp);
  engine.schedule.want_send(qp);
  return true;
}

int AdapterCore::receive_cells(fabric::CellPort& carrier, const AdapterPort& port) noexcept {
  const std::span<const fabric::RxCell> cells = carrier.receive();
  if (cells.empty()) return 0;
  if (!port.up() && &carrier == &port.link()) [[unlikely]] {  // not active: cells are consumed and dropped
    engine.counters.add(AdapterCounter::kDropPortInactive, cells.size());
    carrier.release();
    return static_cast<int>(cells.size());
  }
  CellView cell;  // one object for all cells: constructing it anew costs more than reading a header
  size_t bytes = 0;
  const bool many = engine.qps.many();
  for (size_t i = 0; i < cells.size(); ++i) {
    if (many && i + kCellsAskedAhead < cells.size()) engine.qps.expect(cells[i + kCellsAskedAhead].bytes);
    bytes += cells[i].bytes.size();
    take_cell(port, cells[i].bytes, cell);
  }
  engine.counters.add(AdapterCounter::kCellsReceived, cells.size());
  engine.counters.add(AdapterCounter::kBytesReceived, bytes);
  if (&carrier == &port.loopback()) {
    engine.counters.add(AdapterCounter::kCellsLooped, cells.size());
    engine.counters.add(AdapterCounter::kBytesLooped, bytes);
  }
  carrier.release();
  return static_cast<int>(cells.size());
}

void AdapterCore::take_cell(const AdapterPort& port, std::span<const std::byte> bytes,
                            CellView& cell) noexcept {
  const CrcCheck crc = engine.config.verify_cells ? CrcCheck::kVerify : CrcCheck::kAlreadyVerified;
  const CellError error = decode_cell(bytes, crc, cell);
  if (error != CellError::kNone) [[unlikely]]
    return engine.bad_cells.add(error);
  if (!port.has(cell.dlid) || cell.dest_subnet != port.info().subnet) [[unlikely]] {
    const bool group = is_multicast(cell.dlid) && cell.dest_subnet == port.info().subnet;
    return group ? take_multicast(port, cell) : engine.count(AdapterCounter::kDropOtherLid);
  }
  QueuePair* qp = engine.qps.find(cell.dest_qpn);
  if (qp == nullptr && is_management(cell.dest_qpn)) {
    if (cell.dest_qpn == kQpnSmi && cell.vl != kVlManagement)
      return engine.count(AdapterCounter::kDropManagementLane);
    qp = engine.qps.find_management(cell.dest_qpn, port.number());
  }
  if (qp == nullptr) [[unlikely]] {
    const bool raw = cell.dest_qpn == kQpnByProtocol && cell.opcode == Opcode::kRaw;
    if (raw) qp = find_by_protocol(port, cell);
    if (qp == nullptr) {
      if (!raw) engine.report_stray(Reason::kNoSuchQp, cell);
      return engine.count(raw ? AdapterCounter::kDropProtocol : AdapterCounter::kDropNoQp);
    }
  }
  if (qp->port != port.number() && !followed(*qp, port, cell)) [[unlikely]]
    return take_by_other_way(*qp, port, cell, AdapterCounter::kDropOtherLid);
  if (!qp->abilities().receive) [[unlikely]] {
    engine.report_stray(Reason::kQpNotReady, cell, static_cast<uint64_t>(qp->state));
    return engine.count(AdapterCounter::kDropQpState);
  }
  const uint32_t segment = port.info().cell_payload_bytes;
  const bool full = cell.payload.size() == segment;
  if (cell.payload.size() > segment || (!full && !cell.has(kCellLast))) [[unlikely]]
    return engine.count(AdapterCounter::kDropSegment);
  qp->counters.add(QpCounter::kCellsReceived);
  dispatch(*qp, cell);
}

namespace {

/// True when a cell comes from the bound peer. Within the subnet its LID decides, across subnets its Gid
/// (C-12, PUSH-CHAN-07).
bool from_peer(const QueuePair& qp, const CellView& cell) noexcept {
  if (cell.src_qpn != qp.peer_qpn || cell.has(kCellGlobal) != qp.path.is_global) return false;
  if (!qp.path.is_global) return cell.slid == qp.peer_lid;
  return std::memcmp(cell.global_header + offsetof(GlobalHeaderWire, source), qp.attr.dgid.data(),
                     sizeof(Gid)) == 0;
}

}  // namespace

/// True for cells of another partition that are accepted all the same: QP1 serves every partition of its
/// port; QP0 and raw frames have none.
bool AdapterCore::in_partition(const QueuePair& qp, const CellView& cell) const noexcept {
  if (qp.row->takes_raw_frames || qp.qpn == kQpnSmi) return true;
  if (qp.qpn != kQpnGsi) return false;
  const auto table = engine.ports[qp.port - 1U]->pkeys();
  return std::any_of(table.begin(), table.end(), [&](uint16_t pkey) { return pkeys_match(cell.pkey, pkey); });
}

/// True when the peer of a connected QP has migrated and the cell comes by its new path.
bool AdapterCore::followed(QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept {
  if (!qp.connected() || !qp.abilities().receive) return false;
  if (!follow_peer(engine, qp, port, cell)) return false;
  if (qp.abilities().finish_send) qp.service->repeat_all(qp);
  engine.schedule.want_send(qp);
  return true;
}

/// A cell that is not from the QP's peer by its path. With several NICs it may be a question of the peer by
/// another way.
void AdapterCore::take_by_other_way(QueuePair& qp, const AdapterPort& port, const CellView& cell,
                                    AdapterCounter drop) noexcept {
  if (qp.ways != nullptr && cell.opcode == Opcode::kWays && ways->take(qp, port, cell)) return;
  engine.count(drop);
}

void AdapterCore::dispatch(QueuePair& qp, const CellView& cell) noexcept {
  if (qp.connected() && !from_peer(qp, cell) && !followed(qp, engine.port_of(qp), cell)) [[unlikely]] {
    engine.report_stray(Reason::kWrongPeer, cell, qp.peer_lid.value(), qp.peer_qpn.value());
    return take_by_other_way(qp, engine.port_of(qp), cell, AdapterCounter::kDropSource);
  }
  if (!pkeys_match(cell.pkey, qp.pkey) && !in_partition(qp, cell)) [[unlikely]] {
    engine.report_stray(Reason::kWrongPkey, cell);
    return engine.count(AdapterCounter::kDropPkey);
  }
  if (qp.watch != 0) [[unlikely]] {
    const bool acknowledges = (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpAcknowledge) != 0;
    if ((qp.watch & kWatchKey) != 0 && !acknowledges) return engine.questions->queue_behind(qp, cell);
    watch_cell(engine, qp, cell);
  }
  by_service(qp, [&](auto& service) { service.take(qp, cell); });
}

/// Cells whose keys have been found, or are invalid, go to their service again.
int AdapterCore::take_answered_cells() noexcept {
  return engine.questions->take_answered([this](QueuePair& qp, const CellView& cell, bool asked) {
    if (!qp.abilities().receive) return;
    if ((qp.watch & kWatchKey) != 0) return engine.questions->queue_behind(qp, cell);
    engine.resumed = asked;
    qp.service->take(qp, cell);  // rare: not the direct call, which is inlined once
    engine.resumed = false;
  });
}

/// A QP that finds no credit moves to the list of QPs that wait for it. A QP that has sent and could send
/// more goes behind the others.
int AdapterCore::send_cells() noexcept {
  uint32_t sent = 0;
  uint32_t moved = 0;
  SendList& list = engine.schedule.sends;
  for (size_t left = list.size(); left > 0 && !list.empty(); --left) {
    if (sent >= kCellsPerTurn || moved >= kQpsPerTurn || engine.tx_chunks.awaited()) break;
    QueuePair& qp = list.pop_front();
    bool blocked = false;
    if (!engine.schedule.acks_later.empty()) sent += acknowledge_along(qp);
    const uint32_t cells =
        by_service(qp, [&](auto& service) { return service.run(qp, kCellsPerQpTurn, blocked); });
    sent += cells;
    moved += cells != 0 ? 1 : 0;
    if (blocked) {
      engine.schedule.wait_to_send(qp);
    } else if (cells != 0 && (qp.answers || has_work(qp))) {
      engine.schedule.want_send(qp);
    }
  }
  return static_cast<int>(sent);
}

int AdapterCore::send_acks() noexcept {
  uint32_t sent = 0;
  AckList& later = engine.schedule.acks_later;
  for (uint32_t n = 0; n < kAckQpsPerTurn && !later.empty() && later.front().rx.debt.by() <= engine.now; ++n)
    engine.schedule.acks_now.push_back(later.pop_front());
  for (size_t left = std::min<size_t>(engine.schedule.acks_now.size(), kAckQpsPerTurn); left > 0; --left) {
    sent += acknowledge(engine.schedule.acks_now.pop_front());
  }
  return static_cast<int>(sent + services.run_turns());
}

/// `qp` is in none of the lists of QPs that owe an acknowledgement.
uint32_t AdapterCore::acknowledge(QueuePair& qp) noexcept {
  bool done = false;
  const uint32_t cells = by_service(qp, [&](auto& service) { return service.acknowledge(qp, done); });
  if (done) return cells;
  if (!qp.service->owes_now(qp)) {  // the urgent acknowledgement is no longer needed
    engine.schedule.acks_later.push_back(qp);
  } else if (cells != 0) {
    engine.schedule.acks_now.push_back(qp);
  } else {
    engine.schedule.wait_to_ack(qp);
  }
  return cells;
}

/// Sends a delayed acknowledgement at once if the QP is about to send its first message after a pause. So two
/// peers that write to each other in turn wake each other once for both cells, and no timer wakes a process
/// in between.
uint32_t AdapterCore::acknowledge_along(QueuePair& qp) noexcept {
  if (!engine.schedule.acks_later.holds(qp) || qp.tx.first != qp.tx.end || !has_work(qp)) return 0;
  AckList::unlink(qp);
  qp.rx.debt.hurry();
  return acknowledge(qp);
}

int AdapterCore::run_timers() noexcept {
  int work = 0;
  for (uint32_t left = kTimersPerTurn; left > 0; --left) {
    QueuePair* qp = engine.timers.pop_due(engine.now);
    if (qp == nullptr) break;
    qp->service->on_timer(*qp);
    ++work;
  }
  return work;
}

void AdapterCore::flush_ports() noexcept {
  for (const auto& port : engine.ports) port->link().flush(engine.now);
}

/// Moves a QP to the error state for a reason outside its own work.
void AdapterCore::fail_qp(QueuePair& qp, Reason reason) noexcept {
  if (qp.state != QpState::kErr) engine.report(qp, {.reason = reason});
  enter_error(engine, qp, AsyncEventKind::kQpFatal, rule_of(reason).status);
  qp.service->forget(qp);
}

Instant AdapterCore::deadline() const noexcept {
  // QPs that wait for credit are woken by the link.
  const bool ready = !engine.schedule.sends.empty() || !engine.schedule.acks_now.empty();
  if (ready || sweep_left_ != 0 || engine.overrun_news || engine.schedule.more_to_wake())
    return Instant::min();
  Instant at = std::min(engine.timers.earliest(), services.next_turn());
  if (!engine.schedule.acks_later.empty()) at = std::min(at, engine.schedule.acks_later.front().rx.debt.by());
  if (engine.questions != nullptr) at = std::min({at, engine.questions->deadline(), ways->deadline()});
  for (const auto& port : engine.ports)
    at = std::min({at, port->link().deadline(), port->loopback().deadline(), port->expires_at()});
  return at;
}

/// The path of a QP is changed only while no request is in flight. The cells of a new port must have the size
/// of those of half-received packets.
ModifyResult AdapterCore::check_move(const QueuePair& qp, const QpAttr& attr, uint32_t mask) const noexcept {
  const bool to_port = (mask & kQpAttrPort) != 0;
  if ((mask & kQpAttrCurState) != 0 && attr.cur_state != qp.state) return Reason::kOtherState;
  const ModifyResult migration = check_migration(engine, qp, attr, mask);
  if (migration != ModifyResult::kOk) return migration;
  if (to_port && attr.port != qp.port && (engine.groups.has(qp) || protocols.has(qp)))
    return Reason::kBoundToPort;
  if ((mask & kQpAttrPkeyIndex) != 0) {
    const AdapterPort& at = *engine.ports[(to_port ? attr.port : qp.port) - 1U];
    if ((at.pkeys()[attr.pkey_index] & ~kPkeyFullMember) == 0) return Reason::kNoPartition;
  }
  if (to_port && is_management(qp.qpn) && attr.port != qp.config.port) return Reason::kBoundToPort;
  if (qp.state != QpState::kSqd || (mask & (kQpAttrAddress | kQpAttrPort)) == 0) return ModifyResult::kOk;
  if (!Completer::drained(qp)) return Reason::kNotDrained;
  const AdapterPort& port = *engine.ports[(to_port ? attr.port : qp.port) - 1U];
  const bool other_cells = port.known() && qp.path.segment_bytes != port.info().cell_payload_bytes;
  return to_port && other_cells ? Reason::kOtherCells : Reason::kOk;
}

/// The QP that has registered for a raw frame's next header and destination (SAN-XPORT-16).
QueuePair* AdapterCore::find_by_protocol(const AdapterPort& port, const CellView& cell) noexcept {
  if (cell.global_header == nullptr) return nullptr;
  GlobalHeaderWire header;
  std::memcpy(&header, cell.global_header, sizeof header);
  return protocols.find(
      {.port = port.number(), .next_header = header.next_header, .address = header.destination});
}

/// A datagram to a group: each member takes it as if it had been sent to that member alone. The global header
/// names the group, because several groups may share a LID.
void AdapterCore::take_multicast(const AdapterPort& port, const CellView& cell) noexcept {
  const bool whole = cell.opcode == Opcode::kUdSend && cell.dest_qpn == kQpnMulticast &&
                     cell.global_header != nullptr && cell.payload.size() <= port.info().cell_payload_bytes;
  bool taken = false;
  if (whole) {
    Gid gid;
    std::memcpy(gid.data(), cell.global_header + offsetof(GlobalHeaderWire, destination), sizeof gid);
    engine.groups.for_each(port.number(), cell.dlid, [&](const MulticastGroups::Member& member) {
      if (member.gid != gid || !member.qp->abilities().receive) return;
      taken = true;
      member.qp->counters.add(QpCounter::kCellsReceived);
      dispatch(*member.qp, cell);
    });
  }
  if (!taken) engine.count(AdapterCounter::kDropMulticast);
}

void AdapterCore::set_pkeys(AdapterPort& port, std::span<const uint16_t> pkeys) noexcept {
  port.set_pkeys(pkeys);
  for (QueuePair* qp : engine.qps.all()) {
    if (qp->port == port.number()) engine.renew_path(*qp);
  }
  engine.raise(port, AsyncEventKind::kPkeyChange);
}

ModifyResult AdapterCore::modify(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept {
  const QpState to = (mask & kQpAttrState) != 0 ? attr.state : qp.state;
  ModifyResult result = check_qp_move(qp.row->states_like, qp.state, to, mask);
  if (result != ModifyResult::kOk) return result;
  result = check_qp_values(attr, mask, static_cast<uint32_t>(engine.ports.size()));
  if (result != ModifyResult::kOk) return result;
  result = check_move(qp, attr, mask);
  if (result != ModifyResult::kOk) return result;
  const QpState from = qp.state;
  if (to == QpState::kReset || to == QpState::kErr) qp.service->say_last_words(qp);
  take_attributes(qp, attr, mask);
  qp.state = qp.attr.state = to;
  // The attribute is used by this move and not stored.
  if (to == QpState::kSqd && from == QpState::kRts)
    qp.tx.drain_reported = (mask & kQpAttrSqdNotify) == 0 || !attr.sqd_notify;
  enter_state(qp, from);
  return ModifyResult::kOk;
}

/// Applies checked attributes.
void AdapterCore::take_attributes(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept {
  const PathMigState before = qp.attr.path_mig_state;
  merge_qp_attr(qp.attr, attr, mask);
  if (qp.ways != nullptr && (mask & kQpAttrAltPath) != 0) qp.ways->off = true;
  if ((mask & kQpAttrPort) != 0) {
    engine.use_port(qp, qp.attr.port);
    qp.port_seen = engine.port_of(qp).change();
  }
  if ((mask & (kQpAttrPort | kQpAttrPkeyIndex)) != 0) engine.renew_path(qp);
  if (qp.state == QpState::kSqd && (mask & (kQpAttrAddress | kQpAttrPort)) != 0) {
    qp.peer_lid = qp.attr.dlid;
    engine.renew_path(qp);
    engine.schedule.wait_no_more(qp);
    if (qp.ways != nullptr) ways->begin(qp);
  }
  if ((mask & kQpAttrPathMigState) == 0 || qp.attr.path_mig_state == before) return;
  const bool rearms = qp.attr.path_mig_state == PathMigState::kRearm;
  qp.watch = static_cast<uint8_t>(rearms ? qp.watch | kWatchPeerArmed : qp.watch & ~kWatchPeerArmed);
  engine.renew_path(qp);  // the path's template puts the state into cells
  if (before != PathMigState::kArmed || rearms) return;
  qp.attr.path_mig_state = before;  // move_path() changes it if the alternate path is of use
  (void)move_path(qp);
}

void AdapterCore::enter_state(QueuePair& qp, QpState from) noexcept {
  const QpState to = qp.state;
  if (to == QpState::kReset) {
    if (qp.ways != nullptr) ways->forget(qp);
    forget_everything(engine, qp);
  }
  if (to == QpState::kRtr && from == QpState::kInit) {
    start_receiving(engine, qp);
    if (qp.row == &kRcRow && direct_ != nullptr) direct_->offer(qp);
  }
  if (to == QpState::kRts && from == QpState::kRtr) {
    start_sending(engine, qp);
    if (qp.ways != nullptr) ways->begin(qp);
  }
  if (to == QpState::kRts && from == QpState::kSqe) qp.tx.halted = false;
  if (to == QpState::kSqd && from == QpState::kRts) qp.service->drain(qp);
  if (to == QpState::kErr && from != QpState::kErr) {
    qp.failed_by = Reason::kEndedByProgram;
    flush_all(engine, qp);
  }
  if (qp.abilities().execute_send) engine.schedule.want_send(qp);
  if (qp.abilities().receive) {
    qp.service->modified(qp);
  } else {
    qp.service->forget(qp);
  }
}

}  // namespace weft::adapter
