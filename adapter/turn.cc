// How it works: one turn looks at the ports, takes arrived cells, lets QPs with work send, sends
// acknowledgements, runs timers and flushes. The low bits of a cell's QPN select the QP. The full number is
// compared, so an old number finds no QP. A connected QP takes cells only from its bound peer; that is
// checked before PSN and key (PUSH-CHAN-07).
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "adapter/adapter.h"
#include "adapter/adapter_parts.h"
#include "adapter/transport/path_migration.h"
#include "adapter/transport/unreliable/unreliable_service.h"
#include "messages/cell_stream.h"
#include "messages/ipv6_frame.h"
#include "messages/multicast.h"

namespace weft::adapter {
namespace {

/// True when a cell comes from the bound peer. Within the subnet its LID decides, across subnets its Gid
/// (C-12, PUSH-CHAN-07).
bool from_peer(const QueuePair& qp, const CellView& cell) noexcept {
  if (cell.src_qpn != qp.peer_qpn || cell.has(kCellGlobal) != qp.path.is_global) return false;
  if (!qp.path.is_global) return cell.slid == qp.peer_lid;
  return std::memcmp(cell.global_header + offsetof(GlobalHeaderWire, source), qp.attr.dgid.data(),
                     sizeof(Gid)) == 0;
}

/// True for cells of another partition that are accepted all the same: QP1 serves every partition of its
/// port; QP0 and raw frames have none.
bool in_partition(Engine& engine, const QueuePair& qp, const CellView& cell) noexcept {
  if (qp.row->takes_raw_frames || qp.qpn == kQpnSmi) return true;
  if (qp.qpn != kQpnGsi) return false;
  const auto table = engine.ports[qp.port - 1U]->pkeys();
  return std::any_of(table.begin(), table.end(), [&](uint16_t pkey) { return pkeys_match(cell.pkey, pkey); });
}

/// True when the peer of a connected QP has migrated and the cell comes by its new path.
bool followed(Engine& engine, QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept {
  if (!qp.connected() || !qp.abilities().receive) return false;
  if (!follow_peer(engine, qp, port, cell)) return false;
  repeat_by_new_path(engine, qp);
  return true;
}

/// A cell that is not from the QP's peer by its path. With several NICs it may be a question of the peer by
/// another way.
[[gnu::cold]] void take_by_other_way(Engine& engine, QueuePair& qp, const AdapterPort& port,
                                     const CellView& cell, AdapterCounter drop) noexcept {
  if (qp.ways != nullptr && cell.opcode == Opcode::kWays && engine.several_nics->ways.take(qp, port, cell))
    return;
  engine.count(drop);
}

/// The cell is for `qp`: from its peer, if it has one, and of its partition.
bool accepts(AdapterParts& parts, QueuePair& qp, const CellView& cell) noexcept {
  Engine& engine = parts.engine;
  if (qp.connected() && !from_peer(qp, cell) && !followed(engine, qp, engine.port_of(qp), cell))
      [[unlikely]] {
    engine.report_stray(Reason::kWrongPeer, cell, qp.peer_lid.value(), qp.peer_qpn.value());
    take_by_other_way(engine, qp, engine.port_of(qp), cell, AdapterCounter::kDropSource);
    return false;
  }
  if (!pkeys_match(cell.pkey, qp.pkey) && !in_partition(engine, qp, cell)) [[unlikely]] {
    engine.report_stray(Reason::kWrongPkey, cell);
    engine.port_of(qp).counters.add(AdapterPortCounter::kOtherPartition);
    engine.count(AdapterCounter::kDropPkey);
    return false;
  }
  return true;
}

/// Gives the service a cell that its QP accepts.
void hand_over(AdapterParts& parts, QueuePair& qp, const CellView& cell) noexcept {
  Engine& engine = parts.engine;
  if (qp.watch != 0) [[unlikely]] {
    const bool acknowledges = (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpAcknowledge) != 0;
    if ((qp.watch & kWatchKey) != 0 && !acknowledges)
      return engine.several_nics->questions.queue_behind(qp, cell);
    watch_cell(engine, qp, cell);
  }
  parts.by_service(qp, [&](auto& service) { service.take(qp, cell); });
}

/// A datagram to a group: each member takes it as if it had been sent to that member alone. The global header
/// names the group, because several groups may share a LID.
void take_multicast(AdapterParts& parts, const AdapterPort& port, const CellView& cell) noexcept {
  Engine& engine = parts.engine;
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
      if (accepts(parts, *member.qp, cell)) hand_over(parts, *member.qp, cell);
    });
  }
  if (!taken) engine.count(AdapterCounter::kDropMulticast);
}

/// The QP that has registered for a raw frame's next header and destination (SAN-XPORT-16).
QueuePair* find_by_protocol(AdapterParts& parts, const AdapterPort& port, const CellView& cell) noexcept {
  if (cell.global_header == nullptr) return nullptr;
  GlobalHeaderWire header;
  std::memcpy(&header, cell.global_header, sizeof header);
  return parts.protocols.find(
      {.port = port.number(), .next_header = header.next_header, .address = header.destination});
}

/// The QP to which a cell goes. Null: the cell went to a group or another way, or is dropped and counted.
QueuePair* find_qp(AdapterParts& parts, AdapterPort& port, const CellView& cell) noexcept {
  Engine& engine = parts.engine;
  if (!port.has(cell.dlid) || cell.dest_subnet != port.info().subnet) [[unlikely]] {
    const bool group = is_multicast(cell.dlid) && cell.dest_subnet == port.info().subnet;
    group ? take_multicast(parts, port, cell) : engine.count(AdapterCounter::kDropOtherLid);
    return nullptr;
  }
  QueuePair* qp = engine.qps.find(cell.dest_qpn);
  if (qp == nullptr && is_management(cell.dest_qpn)) {
    if (cell.dest_qpn == kQpnSmi && cell.vl != kVlManagement) {
      engine.count(AdapterCounter::kDropManagementLane);
      return nullptr;
    }
    qp = engine.qps.find_management(cell.dest_qpn, port.number());
  }
  if (qp == nullptr) [[unlikely]] {
    const bool raw = cell.dest_qpn == kQpnByProtocol && cell.opcode == Opcode::kRaw;
    if (raw) qp = find_by_protocol(parts, port, cell);
    if (qp == nullptr) {
      if (!raw) engine.report_stray(Reason::kNoSuchQp, cell);
      engine.count(raw ? AdapterCounter::kDropProtocol : AdapterCounter::kDropNoQp);
      return nullptr;
    }
  }
  if (qp->port != port.number() && !followed(engine, *qp, port, cell)) [[unlikely]] {
    take_by_other_way(engine, *qp, port, cell, AdapterCounter::kDropOtherLid);
    return nullptr;
  }
  return qp;
}

/// QPs that accepted the last cell of each kind in one receive(); null: the next one must be looked up.
using Takers = std::array<QueuePair*, CellStream::kKinds>;

/// The QP receives, and the cell has a size of the port's cells. Counts the cell.
[[gnu::always_inline]] inline bool admits(Engine& engine, AdapterPort& port, QueuePair& qp,
                                          const CellView& cell) noexcept {
  if (!qp.abilities().receive) [[unlikely]] {
    engine.report_stray(Reason::kQpNotReady, cell, static_cast<uint64_t>(qp.state));
    engine.count(AdapterCounter::kDropQpState);
    return false;
  }
  const uint32_t segment = port.info().cell_payload_bytes;
  const bool full = cell.payload.size() == segment;
  if (cell.payload.size() > segment || (!full && !cell.has(kCellLast))) [[unlikely]] {
    port.counters.add(AdapterPortCounter::kBadCells);
    engine.count(AdapterCounter::kDropSegment);
    return false;
  }
  qp.counters.add(QpCounter::kCellsReceived);
  return true;
}

void take_cell(AdapterParts& parts, AdapterPort& port, std::span<const std::byte> bytes,
               Takers& takers) noexcept {
  Engine& engine = parts.engine;
  CellStream& stream = parts.arriving;
  const CrcCheck crc = engine.config.verify_cells ? CrcCheck::kVerify : CrcCheck::kAlreadyVerified;
  const CellError error = stream.decode(bytes, crc);
  if (error != CellError::kNone) [[unlikely]] {
    port.counters.add(AdapterPortCounter::kBadCells);
    return engine.bad_cells.add(error);
  }
  const CellView& cell = stream.cell();
  QueuePair* qp = stream.repeats() ? takers[stream.kind()] : nullptr;
  const bool known = qp != nullptr;
  if (!known) {
    takers = {};  // this cell may change where its QP takes cells from
    qp = find_qp(parts, port, cell);
    if (qp == nullptr) return;
  }
  if (!admits(engine, port, *qp, cell)) return;
  if (!known) {
    if (!accepts(parts, *qp, cell)) return;
    // With several NICs, a cell that is known may move its QP, too.
    if (engine.several_nics == nullptr) takers[stream.kind()] = qp;
  }
  hand_over(parts, *qp, cell);
}

int take_cells(AdapterParts& parts, fabric::CellPort& carrier, AdapterPort& port,
               std::span<const fabric::RxCell> cells) noexcept {
  Engine& engine = parts.engine;
  if (!port.up() && &carrier == &port.link()) [[unlikely]] {  // not active: cells are consumed and dropped
    engine.counters.add(AdapterCounter::kDropPortInactive, cells.size());
    carrier.release();
    return static_cast<int>(cells.size());
  }
  Takers takers{};
  size_t bytes = 0;
  const bool many = engine.qps.many();
  for (size_t i = 0; i < cells.size(); ++i) {
    if (many && i + kCellsAskedAhead < cells.size()) engine.qps.expect(cells[i + kCellsAskedAhead].bytes);
    if (many && i + 1 < cells.size()) engine.qps.expect_next(cells[i + 1].bytes);
    bytes += cells[i].bytes.size();
    take_cell(parts, port, cells[i].bytes, takers);
  }
  port.counters.add(AdapterPortCounter::kCellsReceived, cells.size());
  port.counters.add(AdapterPortCounter::kBytesReceived, bytes);
  if (&carrier == &port.loopback()) {
    port.counters.add(AdapterPortCounter::kCellsLooped, cells.size());
    port.counters.add(AdapterPortCounter::kBytesLooped, bytes);
  }
  carrier.release();
  return static_cast<int>(cells.size());
}

/// Inline, because most turns find nothing.
[[gnu::always_inline]] inline int receive_cells(AdapterParts& parts, fabric::CellPort& carrier,
                                                AdapterPort& port) noexcept {
  const std::span<const fabric::RxCell> cells = carrier.receive();
  return cells.empty() ? 0 : take_cells(parts, carrier, port, cells);
}

/// Cells whose keys have been found, or are invalid, go to their service again.
int take_answered_cells(Engine& engine) noexcept {
  return engine.several_nics->questions.take_answered(
      [&engine](QueuePair& qp, const CellView& cell, bool asked) {
        if (!qp.abilities().receive) return;
        if ((qp.watch & kWatchKey) != 0) return engine.several_nics->questions.queue_behind(qp, cell);
        engine.resumed = asked;
        qp.service->take(qp, cell);  // rare: not the direct call, which is inlined once
        engine.resumed = false;
      });
}

/// `qp` is in none of the lists of QPs that owe an acknowledgement.
uint32_t acknowledge(AdapterParts& parts, QueuePair& qp) noexcept {
  Engine& engine = parts.engine;
  bool done = false;
  const uint32_t cells = parts.by_service(qp, [&](auto& service) { return service.acknowledge(qp, done); });
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
uint32_t acknowledge_along(AdapterParts& parts, QueuePair& qp) noexcept {
  Engine& engine = parts.engine;
  if (!engine.schedule.acks_later.holds(qp) || qp.tx.first != qp.tx.end || !parts.has_work(qp)) return 0;
  AckList::unlink(qp);
  qp.rx.debt.hurry();
  return acknowledge(parts, qp);
}

int send_acks(AdapterParts& parts) noexcept {
  Engine& engine = parts.engine;
  uint32_t sent = 0;
  AckList& later = engine.schedule.acks_later;
  for (uint32_t n = 0; n < kAckQpsPerTurn && !later.empty() && later.front().rx.debt.by() <= engine.now; ++n)
    engine.schedule.acks_now.push_back(later.pop_front());
  for (size_t left = std::min<size_t>(engine.schedule.acks_now.size(), kAckQpsPerTurn); left > 0; --left) {
    sent += acknowledge(parts, engine.schedule.acks_now.pop_front());
  }
  return static_cast<int>(sent + parts.services.run_turns());
}

/// A QP that finds no credit moves to the list of QPs that wait for it. A QP that has sent and could send
/// more goes behind the others, also among those that wait: a lane may get credit for one cell at a time.
int send_cells(AdapterParts& parts) noexcept {
  Engine& engine = parts.engine;
  uint32_t sent = 0;
  uint32_t moved = 0;
  SendList& list = engine.schedule.sends;
  std::array<QueuePair*, kQpsPerTurn> last_to_wait;
  uint32_t last = 0;
  for (size_t left = list.size(); left > 0 && !list.empty(); --left) {
    if (sent >= kCellsPerTurn || moved >= kQpsPerTurn || engine.tx_chunks.awaited()) break;
    QueuePair& qp = list.pop_front();
    if (engine.qps.many() && !list.empty()) list.front().prefetch_ranges();
    bool blocked = false;
    if (!engine.schedule.acks_later.empty()) sent += acknowledge_along(parts, qp);
    const uint32_t cells =
        parts.by_service(qp, [&](auto& service) { return service.run(qp, kCellsPerQpTurn, blocked); });
    sent += cells;
    moved += cells != 0 ? 1 : 0;
    if (blocked && cells != 0) {
      last_to_wait[last++] = &qp;
    } else if (blocked) {
      engine.schedule.wait_to_send(qp);
    } else if (cells != 0 && (qp.answers || parts.has_work(qp))) {
      engine.schedule.want_send(qp);
    }
  }
  for (uint32_t i = 0; i < last; ++i) engine.schedule.wait_to_send(*last_to_wait[i]);
  return static_cast<int>(sent);
}

int run_timers(Engine& engine) noexcept {
  int work = 0;
  for (uint32_t left = kTimersPerTurn; left > 0; --left) {
    QueuePair* qp = engine.timers.pop_due(engine.now);
    if (qp == nullptr) break;
    qp->service->on_timer(*qp);
    ++work;
  }
  return work;
}

void flush_ports(Engine& engine) noexcept {
  for (const auto& port : engine.ports) port->link().flush(engine.now);
}

/// Sends the datagrams of a UD QP. False when some wait for the rest of a turn: the QP uses a port.
bool send_datagrams(AdapterParts& parts, QueuePair& qp, Instant now) noexcept {
  if (qp.row != &kUdRow || qp.kept == nullptr) return false;
  Engine& engine = parts.engine;
  DatagramQp& kept = datagrams_of(qp);
  if (kept.by_port || !engine.schedule.sends.holds(qp)) return !std::exchange(kept.by_port, false);
  engine.now = now;
  SendList::unlink(qp);
  bool blocked = false;
  const uint32_t cells = qp.service->run(qp, kCellsPerQpTurn, blocked);
  if (blocked) {
    engine.schedule.wait_to_send(qp);
  } else if (cells != 0 && parts.has_work(qp)) {
    engine.schedule.want_send(qp);
  }
  return !std::exchange(kept.by_port, false);
}

}  // namespace

/// The same rules as for a cell from the link. A window serves UD QPs with numbers of their own alone: at a
/// management QP its peer would get around the limit that a switch sets.
void WindowDatagrams::take_datagram(std::span<const std::byte> bytes, std::span<const Lid> sources) noexcept {
  Engine& engine = parts_.engine;
  AdapterPort& port = *engine.ports.front();
  if (!port.up()) return engine.count(AdapterCounter::kDropPortInactive);
  CellView cell;
  const CellError error = decode_cell(bytes, CrcCheck::kAlreadyVerified, cell);
  if (error != CellError::kNone) {
    port.counters.add(AdapterPortCounter::kBadCells);
    return engine.bad_cells.add(error);
  }
  if (std::find(sources.begin(), sources.end(), cell.slid) == sources.end())
    return engine.count(AdapterCounter::kDropSource);
  if (!port.has(cell.dlid)) return engine.count(AdapterCounter::kDropOtherLid);
  const bool leaves = cell.dest_subnet != port.info().subnet || cell.src_subnet != port.info().subnet;
  if (leaves || is_management(cell.dest_qpn)) return engine.count(AdapterCounter::kDropService);
  QueuePair* const qp = engine.qps.find(cell.dest_qpn);
  if (qp == nullptr) {
    engine.report_stray(Reason::kNoSuchQp, cell);
    return engine.count(AdapterCounter::kDropNoQp);
  }
  if (qp->row != &kUdRow || qp->port != port.number()) return engine.count(AdapterCounter::kDropService);
  if (admits(engine, port, *qp, cell) && accepts(parts_, *qp, cell)) hand_over(parts_, *qp, cell);
}

int ChannelAdapter::poll(Instant now) noexcept {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  engine.now = now;
  int work = parts.ports.watch();
  if (parts.sweep.runs()) [[unlikely]]
    parts.sweep.run();
  if (engine.several_nics != nullptr) [[unlikely]]
    work += take_answered_cells(engine) + engine.several_nics->ways.run();
  for (const auto& port : engine.ports) {
    if (port->linked() && engine.ready_to_receive()) work += receive_cells(parts, port->link(), *port);
  }
  for (const auto& port : engine.ports) {
    if (engine.ready_to_receive()) work += receive_cells(parts, port->loopback(), *port);
  }
  // After the receives: cells bring credit, and a loopback has room once it is read.
  engine.schedule.wake_waiting();
  work += run_timers(engine);
  // Before data: with one credit per lane, data would leave no credit for acknowledgements.
  work += send_acks(parts);
  work += send_cells(parts);
  if (std::exchange(engine.overrun_news, false)) [[unlikely]] {
    parts.sweep.begin_for_overrun();
    parts.sweep.run();
  }
  flush_ports(engine);
  if (work == 0) engine.timers.drop_resting();
  return work;
}

int ChannelAdapter::send_posted() noexcept {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  if (engine.schedule.sends.empty()) return 0;
  const int sent = send_cells(parts);
  if (sent != 0) flush_ports(engine);
  return sent;
}

int ChannelAdapter::look_at_windows(Instant now) noexcept {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  if (parts.direct == nullptr) return 0;
  engine.now = now;
  if (const uint32_t taken = parts.direct->take_arrivals(); taken != 0) return static_cast<int>(taken);
  return parts.direct->has_news(now) ? static_cast<int>(parts.direct->run_turn()) : 0;
}

WindowNews ChannelAdapter::window_news() const noexcept {
  const DirectService* const direct = parts_->direct;
  if (direct == nullptr || !direct->has_peers()) return WindowNews::kNoWindows;
  return direct->has_news(Instant::min()) ? WindowNews::kSome : WindowNews::kNone;
}

bool ChannelAdapter::send_by_window(QueuePair& qp, Instant now) noexcept {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  if (qp.row != &kRcDirectRow) return send_datagrams(parts, qp, now);
  if (!engine.schedule.sends.holds(qp)) return true;
  engine.now = now;
  SendList::unlink(qp);
  bool blocked = false;
  uint32_t steps = parts.direct->run(qp, kCellsPerQpTurn, blocked);
  if (engine.schedule.sends.holds(qp)) {  // what waited for the end of DMA, which has come in the same call
    SendList::unlink(qp);
    steps = parts.direct->run(qp, kCellsPerQpTurn, blocked);
  }
  if (steps != 0 && (qp.answers || parts.has_work(qp))) engine.schedule.want_send(qp);
  return true;
}

Instant ChannelAdapter::deadline() const noexcept {
  AdapterParts& parts = *parts_;
  Engine& engine = parts.engine;
  // QPs that wait for credit are woken by the link.
  const bool ready = !engine.schedule.sends.empty() || !engine.schedule.acks_now.empty();
  if (ready || parts.sweep.runs() || engine.overrun_news || engine.schedule.more_to_wake())
    return Instant::min();
  Instant at = std::min(engine.timers.earliest(), parts.services.next_turn());
  if (!engine.schedule.acks_later.empty()) at = std::min(at, engine.schedule.acks_later.front().rx.debt.by());
  if (engine.several_nics != nullptr)
    at = std::min({at, engine.several_nics->questions.deadline(), engine.several_nics->ways.deadline()});
  for (const auto& port : engine.ports)
    at = std::min({at, port->link().deadline(), port->loopback().deadline(), port->expires_at()});
  return at;
}

}  // namespace weft::adapter
