// How it works: one turn looks at the ports, takes what has arrived, lets QPs with work send, sends
// acknowledgements, runs timers and flushes. Cells go to a QP by the low bits of their QPN; the full number
// is compared, so an old number finds nothing. A connected QP takes cells from its bound peer only, and
// that is checked before PSN and key (PUSH-CHAN-07).
#include "adapter/adapter_core.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

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
      numbers(config.limits.queue_pairs, engine.table_mask + 1, random) {}

void AdapterCore::attach(fabric::CellPort& carrier) {
  engine.ports.push_back({.carrier = &carrier});
  if (carrier.up()) port_came_up(engine.ports.back());
}

int AdapterCore::poll(Instant now) noexcept {
  engine.now = now;
  int work = watch_ports();
  for (const EnginePort& port : engine.ports) {
    if (port.up) work += receive_cells(*port.carrier, port);
  }
  if (!engine.ports.empty()) work += receive_cells(engine.loopback, engine.ports.front());
  work += run_timers();
  work += send_acks();  // first: with one credit per lane, data would leave none for them
  work += send_cells();
  if (engine.overrun_pending) [[unlikely]]
    fail_overrun();
  flush_ports();
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

uint8_t AdapterCore::number_of(const EnginePort& port) const noexcept {
  return static_cast<uint8_t>(&port - engine.ports.data() + 1);
}

void AdapterCore::port_came_up(EnginePort& port) noexcept {
  const uint32_t payload_before = port.info.cell_payload_bytes;
  const bool again = port.known;
  port.info = port.carrier->info();
  port.incarnation = port.carrier->incarnation();
  port.up = port.known = true;
  port.expired = false;
  ++port.generation;
  engine.raise({.kind = AsyncEventKind::kPortUp, .port = number_of(port)});
  if (!again) return;
  for (const auto& qp : engine.table) {
    if (qp == nullptr || qp->port != number_of(port)) continue;
    if (payload_before != port.info.cell_payload_bytes && qp->tx.first != qp->tx.end) {
      // Packets in flight were cut for another cell size: they cannot be repeated.
      fail_qp(*qp, WcStatus::kFatal);
    } else if (qp->abilities().finish_send && qp->acknowledged()) {
      completer.repeat_all(*qp);
    }
    if (qp->abilities().execute_send) engine.want_send(*qp);
  }
}

void AdapterCore::port_went_down(EnginePort& port) noexcept {
  port.up = false;
  port.down_since = engine.now;
  engine.count(AdapterCounter::kPortDowns);
  engine.raise({.kind = AsyncEventKind::kPortDown, .port = number_of(port)});
}

void AdapterCore::expire_port(EnginePort& port) noexcept {
  port.expired = true;
  engine.count(AdapterCounter::kPortExpired);
  engine.raise({.kind = AsyncEventKind::kPortExpired, .port = number_of(port)});
  for (const auto& qp : engine.table) {
    if (qp == nullptr || qp->port != number_of(port) || !qp->acknowledged() || !qp->abilities().receive)
      continue;
    if (qp->path.carrier == &engine.loopback) continue;
    if (qp->tx.first != qp->tx.end) completer.fail_packet(*qp, qp->tx.first, WcStatus::kRetryExceeded);
    fail_qp(*qp, WcStatus::kRetryExceeded);
  }
}

int AdapterCore::receive_cells(fabric::CellPort& carrier, const EnginePort& port) noexcept {
  const std::span<const fabric::RxCell> cells = carrier.receive();
  if (cells.empty()) return 0;
  CellView cell;  // one for all: making it anew costs more than reading a header
  for (const fabric::RxCell& arrived : cells) take_cell(port, arrived.bytes, cell);
  engine.counters.add(AdapterCounter::kCellsReceived, cells.size());
  if (&carrier == &engine.loopback) engine.counters.add(AdapterCounter::kCellsLooped, cells.size());
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
  if (qp == nullptr) [[unlikely]]
    return engine.count(AdapterCounter::kDropNoQp);
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
  if (qp.rx.reads_head != qp.rx.reads_tail) sent = responder.send_reads(qp, budget, blocked);
  if (!blocked && sent < budget) sent += requester.run(qp, budget - sent, blocked);
  return sent;
}

int AdapterCore::send_cells() noexcept {
  uint32_t sent = 0;
  uint64_t turns = engine.send_list.size();
  engine.send_ready = turns > kQpsPerTurn;
  turns = std::min<uint64_t>(turns, kQpsPerTurn);
  for (; turns > 0 && sent < kCellsPerTurn; --turns) {
    QueuePair& qp = *engine.send_list.pop();
    qp.in_send_list = false;
    bool blocked = false;
    const uint32_t cells = run_qp(qp, kCellsPerQpTurn, blocked);
    sent += cells;
    const bool more = qp.config.type == QpType::kRd ? blocked : requester.has_work(qp);
    const bool reads = qp.rx.reads_head != qp.rx.reads_tail;
    if (qp.in_send_list || !(more || reads) || !engine.path_ready(qp)) continue;
    // It stays on the list; but only one that moved is worth another turn at once.
    qp.in_send_list = true;
    engine.send_list.push(qp);
    engine.send_ready |= cells != 0 && !blocked;
  }
  engine.send_ready |= turns != 0;
  return static_cast<int>(sent);
}

int AdapterCore::send_acks() noexcept {
  uint32_t sent = 0;
  engine.acks_stalled = false;
  for (uint64_t left = engine.ack_list.size(); left > 0; --left) {
    QueuePair& qp = *engine.ack_list.pop();
    qp.in_ack_list = false;
    bool done = false;
    const uint32_t cells = acknowledger.run(qp, done);
    sent += cells;
    if (done) continue;
    qp.in_ack_list = true;
    engine.ack_list.push(qp);
    engine.acks_stalled |= cells == 0;
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

void AdapterCore::flush_ports() noexcept {
  for (const EnginePort& port : engine.ports) port.carrier->flush(engine.now);
}

/// A CQ that lost a completion cannot be trusted any more: its QPs go to the error state.
void AdapterCore::fail_overrun() noexcept {
  engine.overrun_pending = false;
  for (const auto& qp : engine.table) {
    if (qp == nullptr || qp->state == QpState::kReset || qp->state == QpState::kErr) continue;
    if (qp->config.send_cq->overrun() || qp->config.recv_cq->overrun()) fail_qp(*qp, WcStatus::kFatal);
  }
}

/// Ends a QP for a reason outside its own work.
void AdapterCore::fail_qp(QueuePair& qp, WcStatus status) noexcept {
  enter_error(engine, qp, AsyncEventKind::kQpFatal, status);
  if (qp.config.type == QpType::kRd) rd.forget(qp);
}

Instant AdapterCore::deadline() const noexcept {
  // What waits for credit is woken by the link.
  if ((engine.send_list.size() != 0 && engine.send_ready) || engine.overrun_pending) return Instant::min();
  Instant at = std::min(engine.timers.earliest(), rd.acks_ready() ? Instant::min() : kNever);
  at = std::min(at, engine.loopback.deadline());
  for (uint64_t i = 0; i < engine.ack_list.size(); ++i) {
    const QueuePair& qp = engine.ack_list.peek(i);
    const Instant due = qp.rx.ack_now ? Instant::min() : qp.rx.ack_at;
    if (due > engine.now || !engine.acks_stalled) at = std::min(at, due);
  }
  for (const EnginePort& port : engine.ports) {
    at = std::min(at, port.carrier->deadline());
    if (!port.up && port.known && !port.expired) at = std::min(at, port.down_since + kPortDownLimit);
  }
  return at;
}

ModifyResult AdapterCore::modify(QueuePair& qp, const QpAttr& attr, uint32_t mask) noexcept {
  const QpState to = (mask & kQpAttrState) != 0 ? attr.state : qp.state;
  ModifyResult result = check_qp_move(qp.config.type, qp.state, to, mask);
  if (result != ModifyResult::kOk) return result;
  result = check_qp_values(attr, mask, static_cast<uint32_t>(engine.ports.size()));
  if (result != ModifyResult::kOk) return result;
  const QpState from = qp.state;
  merge_qp_attr(qp.attr, attr, mask);
  if ((mask & kQpAttrPort) != 0) qp.port = qp.attr.port;
  qp.state = qp.attr.state = to;
  if (to == QpState::kReset) forget_everything(engine, qp);
  if (to == QpState::kRtr && from == QpState::kInit) start_receiving(engine, qp);
  if (to == QpState::kRts && from == QpState::kRtr) start_sending(engine, qp);
  if (to == QpState::kRts && from == QpState::kSqe) qp.tx.halted = false;
  if (to == QpState::kSqd && from == QpState::kRts) {
    qp.tx.drain_reported = false;
    completer.retire(qp);
  }
  if (to == QpState::kErr && from != QpState::kErr && from != QpState::kReset) flush_all(engine, qp);
  if (qp.abilities().execute_send) engine.want_send(qp);
  if (qp.config.type == QpType::kRd && !qp.abilities().receive) rd.forget(qp);
  return ModifyResult::kOk;
}

}  // namespace weft::adapter
