// How it works: one turn looks at the ports, takes what has arrived, lets QPs with work send, sends
// acknowledgements, runs timers and flushes. Cells go to a QP by the low bits of their QPN; the full number
// is compared, so an old number finds nothing. A connected QP takes cells from its bound peer only, and
// that is checked before PSN and key (PUSH-CHAN-07).
#include "adapter/adapter_core.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "adapter/loopback_port.h"
#include "adapter/queues/qp_lifecycle.h"
#include "base/log.h"

namespace weft::adapter {

AdapterCore::AdapterCore(const AdapterConfig& config, RandomSource& random)
    : engine(config, random),
      segmenter(engine),
      completer(engine, segmenter),
      requester(engine, segmenter, completer),
      responder(engine, segmenter),
      unreliable(engine, segmenter),
      acknowledger(engine, segmenter),
      rd(engine, segmenter, completer, requester),
      pds(config.limits.protection_domains + 1),
      srqs(engine, pds),
      numbers(config.limits.queue_pairs, engine.table_mask + 1, random) {}

void AdapterCore::attach(fabric::CellPort& carrier) {
  engine.ports.push_back({.carrier = &carrier,
                          .loopback = std::make_unique<LoopbackPort>(kLoopbackCells),
                          .number = static_cast<uint8_t>(engine.ports.size() + 1)});
  engine.gsi.emplace_back();
  if (carrier.up()) port_came_up(engine.ports.back());
}

int AdapterCore::poll(Instant now) noexcept {
  engine.now = now;
  int work = watch_ports();
  for (const EnginePort& port : engine.ports) {
    if (port.up) work += receive_cells(*port.carrier, port);
  }
  for (const EnginePort& port : engine.ports) work += receive_cells(*port.loopback, port);
  work += run_timers();
  work += send_acks();  // first: with one credit per lane, data would leave none for them
  work += send_cells();
  if (engine.overrun_pending) [[unlikely]]
    fail_overrun();
  flush_ports();
  if (work == 0) drop_spent_timers();
  return work;
}

int AdapterCore::watch_ports() noexcept {
  int work = 0;
  for (EnginePort& port : engine.ports) {
    work += port.carrier->poll(engine.now);
    const bool up = port.carrier->up();
    if (up && (!port.up || port.carrier->incarnation() != port.incarnation)) {
      port_came_up(port);
    } else if (!up && port.up) {
      port_went_down(port);
    } else if (!up && port.known && !port.expired && engine.now - port.down_since >= kPortDownLimit) {
      expire_port(port);
    }
  }
  return work;
}

void AdapterCore::port_came_up(EnginePort& port) noexcept {
  const uint32_t payload_before = port.info.cell_payload_bytes;
  port.info = port.carrier->info();
  port.incarnation = port.carrier->incarnation();
  port.up = port.known = true;
  port.expired = false;
  ++port.generation;
  engine.raise({.kind = AsyncEventKind::kPortUp, .port = port.number});
  engine.for_each_qp([&](QueuePair& qp) {
    if (qp.port != port.number) return;
    if (payload_before != port.info.cell_payload_bytes && qp.tx.first != qp.tx.end) {
      // Packets in flight were cut for another cell size: they cannot be repeated.
      fail_qp(qp, WcStatus::kFatal);
    } else if (qp.abilities().finish_send && qp.acknowledged()) {
      completer.repeat_all(qp);
    }
    if (qp.abilities().finish_send) engine.want_send(qp);
  });
}

void AdapterCore::port_went_down(EnginePort& port) noexcept {
  port.up = false;
  port.down_since = engine.now;
  engine.count(AdapterCounter::kPortDowns);
  engine.raise({.kind = AsyncEventKind::kPortDown, .port = port.number});
}

void AdapterCore::expire_port(EnginePort& port) noexcept {
  port.expired = true;
  engine.count(AdapterCounter::kPortExpired);
  engine.raise({.kind = AsyncEventKind::kPortExpired, .port = port.number});
  engine.for_each_qp([&](QueuePair& qp) {
    if (qp.port != port.number || !qp.acknowledged() || !qp.abilities().receive || qp.path.loops) return;
    if (qp.tx.first != qp.tx.end) completer.fail_packet(qp, qp.tx.first, WcStatus::kRetryExceeded);
    fail_qp(qp, WcStatus::kRetryExceeded);
  });
}

int AdapterCore::receive_cells(fabric::CellPort& carrier, const EnginePort& port) noexcept {
  const std::span<const fabric::RxCell> cells = carrier.receive();
  if (cells.empty()) return 0;
  CellView cell;  // one for all: making it anew costs more than reading a header
  for (const fabric::RxCell& arrived : cells) take_cell(port, arrived.bytes, cell);
  engine.counters.add(AdapterCounter::kCellsReceived, cells.size());
  if (&carrier == port.loopback.get()) engine.counters.add(AdapterCounter::kCellsLooped, cells.size());
  carrier.release();
  return static_cast<int>(cells.size());
}

void AdapterCore::take_cell(const EnginePort& port, std::span<const std::byte> bytes,
                            CellView& cell) noexcept {
  const CrcCheck crc = engine.config.verify_cells ? CrcCheck::kVerify : CrcCheck::kAlreadyVerified;
  const CellError error = decode_cell(bytes, crc, cell);
  if (error != CellError::kNone) [[unlikely]]
    return engine.bad_cells.add(error);
  if (cell.dlid != port.info.lid || cell.dest_subnet != port.info.subnet) [[unlikely]]
    return engine.count(AdapterCounter::kDropOtherLid);
  QueuePair* qp = engine.find_qp(cell.dest_qpn);
  if (qp == nullptr && cell.dest_qpn == kQpnGsi) qp = engine.find_gsi(port);
  if (qp == nullptr) [[unlikely]]
    return engine.count(AdapterCounter::kDropNoQp);
  if (qp->port != port.number) [[unlikely]]
    return engine.count(AdapterCounter::kDropOtherLid);
  if (!qp->abilities().receive) [[unlikely]]
    return engine.count(AdapterCounter::kDropQpState);
  const uint32_t segment = port.info.cell_payload_bytes;
  const bool full = cell.payload.size() == segment;
  if (cell.payload.size() > segment || (!full && !cell.has(kCellLast))) [[unlikely]]
    return engine.count(AdapterCounter::kDropSegment);
  qp->counters.add(QpCounter::kCellsReceived);
  dispatch(*qp, cell);
}

namespace {

/// Does a cell come from the bound peer? Within the subnet its LID tells, across subnets its Gid (C-12,
/// PUSH-CHAN-07).
bool from_peer(const QueuePair& qp, const CellView& cell) noexcept {
  if (cell.src_qpn != qp.peer_qpn || cell.has(kCellGlobal) != qp.path.is_global) return false;
  if (!qp.path.is_global) return cell.slid == qp.peer_lid;
  return std::memcmp(cell.global_header + offsetof(GlobalHeaderWire, source), qp.attr.dgid.data(),
                     sizeof(Gid)) == 0;
}

}  // namespace

void AdapterCore::dispatch(QueuePair& qp, const CellView& cell) noexcept {
  const bool connected = is_connected(qp.config.type);
  if (connected && !from_peer(qp, cell)) [[unlikely]]
    return engine.count(AdapterCounter::kDropSource);
  switch (qp.config.type) {
    case QpType::kRc: {
      (void)engine.path_ready(qp);  // the segment size is needed to place
      const uint16_t properties = opcode_properties(static_cast<uint8_t>(cell.opcode));
      if ((properties & kOpAcknowledge) != 0) return completer.take_ack(qp, cell);
      if (cell.opcode == Opcode::kRdmaReadResponse) return completer.take_read_response(qp, cell);
      return responder.take_request(qp, cell);
    }
    case QpType::kUc:
      (void)engine.path_ready(qp);
      return unreliable.take_connected(qp, cell);
    case QpType::kUd:
    case QpType::kRaw:
      return unreliable.take_datagram(qp, cell);
    case QpType::kRd:
      return rd.take_cell(qp, cell);
  }
}

uint32_t AdapterCore::run_qp(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  if (qp.config.type == QpType::kRd) return rd.run(qp, blocked);
  uint32_t sent = 0;
  if (!qp.rx.reads.empty()) sent = responder.send_reads(qp, budget, blocked);
  if (!blocked && sent < budget) sent += requester.run(qp, budget - sent, blocked);
  return sent;
}

/// Every QP of the list gets a try. Those that find no credit do not count for the length of the turn, or one
/// that finds it could stand behind them unseen.
int AdapterCore::send_cells() noexcept {
  uint32_t sent = 0;
  uint32_t moved = 0;
  size_t left = engine.send_list.size();
  engine.send_ready = false;
  for (; left > 0 && sent < kCellsPerTurn && moved < kQpsPerTurn; --left) {
    QueuePair& qp = *engine.send_list.front();
    engine.send_list.pop();
    qp.in_send_list = false;
    bool blocked = false;
    const uint32_t cells = run_qp(qp, kCellsPerQpTurn, blocked);
    sent += cells;
    moved += cells != 0 ? 1 : 0;
    const bool more = qp.config.type == QpType::kRd ? blocked : requester.has_work(qp);
    const bool reads = !qp.rx.reads.empty();
    if (qp.in_send_list || !(more || reads) || !engine.path_ready(qp)) continue;
    // It stays on the list; but only one that moved is worth another turn at once.
    qp.in_send_list = true;
    engine.send_list.push(&qp);
    engine.send_ready |= cells != 0 && !blocked;
  }
  engine.send_ready |= left != 0;
  return static_cast<int>(sent);
}

int AdapterCore::send_acks() noexcept {
  uint32_t sent = 0;
  engine.acks_at = kNever;
  for (size_t left = engine.ack_list.size(); left > 0; --left) {
    QueuePair& qp = *engine.ack_list.front();
    engine.ack_list.pop();
    qp.in_ack_list = false;
    bool done = false;
    const uint32_t cells = acknowledger.run(qp, done);
    sent += cells;
    if (done) continue;
    qp.in_ack_list = true;
    engine.ack_list.push(&qp);
    // One that is due and did not leave waits for credit or its port, and those wake the adapter.
    const Instant due = qp.rx.ack_now ? Instant::min() : qp.rx.ack_at;
    if (cells != 0 || due > engine.now) engine.acks_at = std::min(engine.acks_at, due);
  }
  return static_cast<int>(sent + rd.send_acks());
}

int AdapterCore::run_timers() noexcept {
  int work = 0;
  for (uint32_t left = kTimersPerTurn; left > 0; --left) {
    QueuePair* qp = engine.timers.pop_due(engine.now);
    if (qp == nullptr) break;
    if (qp->config.type == QpType::kRd) {
      rd.on_timer(*qp);
    } else {
      completer.on_timer(*qp);
    }
    ++work;
  }
  return work;
}

/// A timer stays in the heap when what it watched is done (timer_heap.h). Before the loop sleeps it goes, so
/// that it wakes nobody for nothing.
void AdapterCore::drop_spent_timers() noexcept {
  for (QueuePair* qp = engine.timers.first(); qp != nullptr; qp = engine.timers.first()) {
    const bool due = engine.timers.earliest() <= engine.now;
    if (due || qp->config.type == QpType::kRd || completer.waits_for_time(*qp)) return;
    engine.timers.remove(*qp);
  }
}

void AdapterCore::flush_ports() noexcept {
  for (const EnginePort& port : engine.ports) port.carrier->flush(engine.now);
}

/// A QP that lost a completion cannot go on.
void AdapterCore::fail_overrun() noexcept {
  engine.overrun_pending = false;
  engine.for_each_qp([this](QueuePair& qp) {
    if (qp.state == QpState::kReset || qp.state == QpState::kErr) return;
    if (qp.config.send_cq->fails_users || qp.config.recv_cq->fails_users) fail_qp(qp, WcStatus::kFatal);
  });
  for (const auto& cq : cqs) {
    if (cq != nullptr) cq->fails_users = false;
  }
}

/// Ends a QP for a reason outside its own work.
void AdapterCore::fail_qp(QueuePair& qp, WcStatus status) noexcept {
  enter_error(engine, qp, AsyncEventKind::kQpFatal, status);
  if (qp.config.type == QpType::kRd) rd.forget(qp);
}

Instant AdapterCore::deadline() const noexcept {
  // What waits for credit is woken by the link.
  if ((!engine.send_list.empty() && engine.send_ready) || engine.overrun_pending) return Instant::min();
  Instant at = std::min(engine.timers.earliest(), rd.acks_ready() ? Instant::min() : kNever);
  at = std::min(at, engine.acks_at);
  for (const EnginePort& port : engine.ports) {
    at = std::min({at, port.carrier->deadline(), port.loopback->deadline()});
    if (!port.up && port.known && !port.expired) at = std::min(at, port.down_since + kPortDownLimit);
  }
  return at;
}

/// Where a QP sends is changed only while nothing of it is under way, and the cells of its next port have the
/// same size as those of packets that are half received.
ModifyResult AdapterCore::check_move(const QueuePair& qp, const QpAttr& attr, uint32_t mask) const noexcept {
  const bool to_port = (mask & kQpAttrPort) != 0;
  if (to_port && qp.qpn == kQpnGsi && attr.port != qp.config.port) return ModifyResult::kBadValue;
  if (qp.state != QpState::kSqd || (mask & (kQpAttrAddress | kQpAttrPort)) == 0) return ModifyResult::kOk;
  if (!Completer::drained(qp)) return ModifyResult::kBadTransition;
  const EnginePort& port = engine.ports[(to_port ? attr.port : qp.port) - 1U];
  const bool other_cells = port.known && qp.path.segment_bytes != port.info.cell_payload_bytes;
  return to_port && other_cells ? ModifyResult::kBadValue : ModifyResult::kOk;
}

ModifyResult AdapterCore::modify(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept {
  const QpState to = (mask & kQpAttrState) != 0 ? attr.state : qp.state;
  ModifyResult result = check_qp_move(qp.config.type, qp.state, to, mask);
  if (result != ModifyResult::kOk) return result;
  result = check_qp_values(attr, mask, static_cast<uint32_t>(engine.ports.size()));
  if (result != ModifyResult::kOk) return result;
  result = check_move(qp, attr, mask);
  if (result != ModifyResult::kOk) return result;
  const QpState from = qp.state;
  merge_qp_attr(qp.attr, attr, mask);
  if ((mask & kQpAttrPort) != 0) qp.port = qp.attr.port;
  qp.state = qp.attr.state = to;
  if (to == QpState::kReset) forget_everything(engine, qp);
  if (from == QpState::kSqd && (mask & (kQpAttrAddress | kQpAttrPort)) != 0) {
    qp.peer_lid = qp.attr.dlid;
    qp.path.generation = 0;  // made anew with the next cell
  }
  if (to == QpState::kRtr && from == QpState::kInit) start_receiving(engine, qp);
  if (to == QpState::kRts && from == QpState::kRtr) start_sending(engine, qp);
  if (to == QpState::kRts && from == QpState::kSqe) qp.tx.halted = false;
  if (to == QpState::kSqd && from == QpState::kRts) {
    qp.tx.drain_reported = false;
    completer.retire(qp);
  }
  if (to == QpState::kErr && from != QpState::kErr) flush_all(engine, qp);
  if (qp.abilities().execute_send) engine.want_send(qp);
  if (qp.config.type == QpType::kRd && !qp.abilities().receive) rd.forget(qp);
  return ModifyResult::kOk;
}

}  // namespace weft::adapter
