// How it works: a cell goes through check_psn, check_sequence, check_operation, check_resources,
// check_length, check_rkey, execute, complete and acknowledge. Each step returns the next one, which is
// always further down. The first cells of a packet open it: an RDMA write when the cell with its address has
// come, a Send when every earlier Send is known, because receive WQEs are taken strictly in PSN order. Cells
// of a packet that is not open wait in the stash and count as received. Data is placed by cell number, in any
// order of arrival. Packets are executed in PSN order, and only the execution becomes visible: completions,
// acknowledgement of the last cell, NAKs. A packet that fails a check is marked and answered in its turn.
// Rights and keys may end in the meantime, so the checks of a placement are repeated when the packet is
// executed. Acknowledged data is never dropped.
#include "adapter/transport/reliable/responder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/delivery.h"
#include "adapter/transport/reliable/acknowledger.h"
#include "adapter/transport/responder_faults.h"
#include "adapter/transport/rnr_timer.h"
#include "base/crc32c.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

/// A request whose payload is only a header, without a packet CRC, which would have no data to cover.
[[nodiscard]] bool whole_request(const CellView& cell, size_t bytes) noexcept {
  return cell.payload.size() == bytes && !cell.has(kCellPacketCrc);
}

/// The cell agrees with the first cell of its packet.
[[nodiscard, gnu::always_inline]] inline bool same_operation(const RxPacket& packet,
                                                             const CellView& cell) noexcept {
  return packet.opcode == cell.opcode && packet.flags2 == (cell.flags2 & kCell2OfPacket) &&
         packet.srq == cell.srq;
}

/// The next message of an RC QP, in one cell, while nothing else is partly received.
[[nodiscard, gnu::always_inline]] inline bool whole_in_turn(const QueuePair& qp,
                                                            const CellView& cell) noexcept {
  constexpr uint8_t kWhole = kCellFirst | kCellLast;
  const ReceiveSide& rx = qp.rx;
  if ((cell.flags & (kWhole | kCellPacketCrc | kCellInvalidateKey)) != kWhole) return false;
  if ((cell.flags2 & (kCell2More | kCell2Continues)) != 0 || rx.in_message || rx.message.goes_on())
    return false;
  if (cell.psn != rx.expected || cell.psn != rx.base_psn || cell.psn != rx.next_psn) return false;
  if (rx.next_cell != 0 || rx.highest != 0 || rx.stash_count != 0 || rx.blocked) return false;
  return !qp.row->serves_domain && qp.config.ack_mode == AckMode::kSelective && !qp.config.packet_crc;
}

}  // namespace

/// The fast path of messages of one cell, while nothing is lost: checks and executes them at once, by the
/// rules of the steps below, without opening a packet. Returns false when the cell is another request, or a
/// check fails. Then nothing has changed, and the cell goes through the steps, which count and report a
/// refusal.
bool Responder::take_whole(QueuePair& qp, const CellView& cell) noexcept {
  if (!whole_in_turn(qp, cell)) return false;
  // With a memory manager, skip the fast path: a refused access would look the page up twice and report it
  // twice.
  if (engine_.spaces != nullptr) [[unlikely]]
    return false;
  ReceiveSide& rx = qp.rx;
  const bool fills_wqe = cell.opcode == Opcode::kSend;
  const bool has_imm = cell.has(kCellIdata);
  const bool with_wqe = fills_wqe || (has_imm && qp.config.idata_takes_recv_wqe);
  if (with_wqe && qp.rq->empty()) return false;
  const bool done = fills_wqe ? placement_.receive_at_once(*qp.rq, cell.payload)
                              : cell.opcode == Opcode::kRdmaWrite && placement_.write_at_once(qp, cell);
  if (!done) [[unlikely]]
    return false;
  rx.expected = rx.base_psn = rx.next_psn = cell.psn.plus(1);
  rx.moved_on();
  rx.executed_cell = 0;
  rx.packets.pass(engine_.rx_chunks, rx.expected.value(), 0);
  ++rx.messages_completed;
  if (with_wqe) (void)engine_.take_recv(qp);
  if (fills_wqe || has_imm) {
    deliver(engine_, qp,
            {.is_send = fills_wqe,
             .has_imm = has_imm,
             .solicited = (cell.flags2 & kCell2Solicited) != 0,
             .imm = cell.idata,
             .bytes = cell.payload.size(),
             .va = cell.va},
            with_wqe);
  }
  engine_.schedule.want_ack(qp, cell.has(kCellAckWanted) || rx.debt.count_cell(), engine_.now);
  return true;
}

namespace {

/// The next cell in the middle of the packet in progress, while nothing else is partly received.
[[nodiscard, gnu::always_inline]] inline bool goes_on_in_turn(const QueuePair& qp,
                                                              const CellView& cell) noexcept {
  constexpr uint8_t kPlain = kCellAckWanted | kCellGlobal;
  const ReceiveSide& rx = qp.rx;
  if ((cell.flags & ~kPlain) != 0 || cell.psn != rx.expected || cell.psn != rx.next_psn) return false;
  if (cell.cell_number == 0 || cell.cell_number != rx.next_cell) return false;
  if (rx.highest != 1 || rx.stash_count != 0 || rx.blocked) return false;
  return qp.config.ack_mode == AckMode::kSelective && !qp.config.packet_crc;
}

/// The cell agrees with the earlier cells of its packet, which have all come; the last cell has not.
[[nodiscard, gnu::always_inline]] inline bool fits_what_came(const RxPacket& packet,
                                                             const CellView& cell) noexcept {
  const uint64_t before = (uint64_t{1} << cell.cell_number) - 1;
  return packet.state == RxState::kOpen && packet.cells == 0 && packet.placed == before &&
         same_operation(packet, cell);
}

}  // namespace

/// The fast path of large writes while nothing is lost: checks and places a cell at once, by the rules of the
/// steps below. Returns false when the cell is another one, or a check fails; then nothing has changed, as
/// with take_whole(). Until the packet is executed, an ACK tells only how many of its cells came in order.
/// The cell therefore needs no note in `untold`.
bool Responder::take_next(QueuePair& qp, const CellView& cell) noexcept {
  if (!goes_on_in_turn(qp, cell)) return false;
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = rx.at(cell.psn);
  const uint64_t begin = uint64_t{cell.cell_number} * qp.path.segment_bytes;
  if (!fits_what_came(packet, cell) || !placement_.write_on(packet, begin, cell.payload)) return false;
  packet.seen = packet.placed = packet.seen << 1 | 1;
  ++rx.next_cell;
  engine_.schedule.want_ack(qp, cell.has(kCellAckWanted) || rx.debt.count_cell(), engine_.now);
  return true;
}

void Responder::take_request(QueuePair& qp, const CellView& cell) noexcept {
  if (qp.answers && !answer_before(qp, cell)) [[unlikely]]
    return;
  if (cell.has(kCellFirst) ? take_whole(qp, cell) : take_next(qp, cell)) [[likely]]
    return;
  if (!check_psn(qp, cell)) return;
  take_in_window(qp, cell);
  if (!qp.owes_ack()) give_back_memory(qp, cell.psn);  // nothing of the cell was kept
}

void Responder::take_in_window(QueuePair& qp, const CellView& cell) noexcept {
  Arrival arrival{.qp = qp,
                  .cell = cell,
                  .packet = qp.rx.at(cell.psn),
                  .distance = static_cast<uint64_t>(cell.psn.distance_from(qp.rx.expected)),
                  .highest_before = qp.rx.highest};
  Step step = check_sequence(arrival);
  if (step == Step::kCheckOperation) step = check_operation(arrival);
  if (step == Step::kCheckResources) step = check_resources(arrival);
  if (step == Step::kCheckLength) step = check_length(arrival);
  if (step == Step::kCheckRkey) step = check_rkey(arrival);
  if (step == Step::kExecute) step = execute(arrival);
  if (step == Step::kComplete) step = complete(arrival);
  if (step == Step::kAcknowledge) acknowledge(arrival);
}

/// True for a cell within the window whose packet has memory.
bool Responder::check_psn(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  const int32_t distance = cell.psn.distance_from(rx.expected);
  if (distance < 0) {
    take_duplicate(qp, cell);
    return false;
  }
  if (static_cast<uint32_t>(distance) >= kPacketWindow) {
    qp.counters.add(QpCounter::kBeyondWindow);
    engine_.report_stray(Reason::kWrongPsn, cell, rx.expected.value(), cell.psn.value());
    const RxPacket* expected = rx.find(rx.expected);
    set_nak(qp, AckCode::kSequenceError, rx.expected,
            static_cast<uint16_t>(std::countr_one(expected != nullptr ? expected->seen : 0)));
    engine_.schedule.want_ack(qp, true, engine_.now);
    return false;
  }
  if (!rx.packets.open(engine_.rx_chunks, cell.psn.value(), rx.expected.value())) [[unlikely]] {
    engine_.count(AdapterCounter::kDropWindow);  // not received: the peer repeats it
    return false;
  }
  return true;
}

void Responder::take_duplicate(QueuePair& qp, const CellView& cell) noexcept {
  qp.counters.add(QpCounter::kDuplicateCells);
  note_other_psn(qp, cell);
  if (is_atomic_request(cell.opcode)) return repeat_atomic(qp, cell);
  if (is_read_request(cell.opcode)) return repeat_read(qp, cell);
  if (add_strict_ack(qp, cell.psn, cell.cell_number)) engine_.schedule.want_ack(qp, true, engine_.now);
}

/// Closes a packet of which nothing was kept, as if it had never come.
void Responder::undo_open(Arrival& arrival) noexcept {
  arrival.packet = {};
  arrival.qp.rx.highest = arrival.highest_before;
}

bool Responder::consistent(const Arrival& arrival) const noexcept {
  const RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kFree) return true;
  if (!same_operation(packet, cell)) return false;
  const bool last = cell.has(kCellLast);
  if (packet.cells != 0)
    return last == (cell.cell_number + 1U == packet.cells) && cell.cell_number < packet.cells;
  return !last || (packet.seen >> cell.cell_number) == 0;
}

Responder::Step Responder::check_sequence(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kRefused) return Step::kDone;
  const uint64_t bit = uint64_t{1} << cell.cell_number;
  if ((packet.seen & bit) != 0) {
    qp.counters.add(QpCounter::kDuplicateCells);
    if (arrival.distance != 0) note_other_psn(qp, cell);
    qp.rx.note_untold(cell.psn);
    if (cell.psn == qp.rx.base_psn) resolve_bases(qp);
    complete_in_order(qp);
    // Only if the expected message itself lacks a WQE: a pause for a later one would stop this one for ever.
    if (qp.rx.blocked && cell.psn == qp.rx.expected && qp.rx.base_psn == qp.rx.expected) send_rnr(qp);
    if ((packet.placed & bit) != 0 && packet.behind_final != cell.cell_number + 1U &&
        !add_strict_ack(qp, cell.psn, cell.cell_number)) {
      return Step::kDone;
    }
    engine_.schedule.want_ack(qp, true, engine_.now);
    return Step::kDone;
  }
  if (!consistent(arrival)) return refuse(arrival, ResponderFault::kViolation);
  note_turn(arrival);
  return packet.state == RxState::kFree ? Step::kCheckOperation : Step::kCheckResources;
}

/// Notices missing cells before this one, and has the sender told at once.
void Responder::note_turn(Arrival& arrival) noexcept {
  ReceiveSide& rx = arrival.qp.rx;
  const CellView& cell = arrival.cell;
  if (cell.psn == rx.next_psn && cell.cell_number == rx.next_cell) [[likely]] {
    // in turn
  } else if (cell.psn.before(rx.next_psn) || (cell.psn == rx.next_psn && cell.cell_number < rx.next_cell)) {
    return;  // fills a gap
  } else {
    arrival.qp.counters.add(QpCounter::kGapsSeen);
    engine_.schedule.want_ack(arrival.qp, true, engine_.now);
  }
  rx.next_psn = cell.has(kCellLast) ? cell.psn.plus(1) : cell.psn;
  rx.next_cell = cell.has(kCellLast) ? 0 : cell.cell_number + 1U;
}

Responder::Step Responder::check_operation(Arrival& arrival) noexcept {
  const ResponderFault fault = placement_.check_operation(arrival.qp, arrival.cell);
  if (fault != ResponderFault::kNone) return refuse(arrival, fault);
  if (is_atomic_request(arrival.cell.opcode)) return take_atomic(arrival);
  return is_read_request(arrival.cell.opcode) ? queue_read(arrival) : Step::kCheckResources;
}

/// The first packet ahead of the expected one resets the hull of the data placed ahead.
void Responder::note_ahead(Arrival& arrival) noexcept {
  ReceiveSide& rx = arrival.qp.rx;
  if (rx.highest > 1) return;
  rx.order->ahead_begin = UINTPTR_MAX;
  rx.order->ahead_end = 0;
}

void Responder::open_packet(Arrival& arrival) noexcept {
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kFree) {
    begin_packet(packet, cell);
    packet.state = RxState::kWaiting;
    if (arrival.distance != 0) [[unlikely]]
      note_ahead(arrival);
    arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  }
  describe_packet(packet, cell);
  if (cell.has(kCellVa) && packet.state == RxState::kWaiting) packet.state = RxState::kOpen;
}

Responder::Step Responder::check_resources(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  if (strict_acks_full(qp)) [[unlikely]] {  // not received: the peer repeats it
    qp.counters.add(QpCounter::kStrictAcksFull);
    return Step::kDone;
  }
  const bool was_free = packet.state == RxState::kFree;
  open_packet(arrival);
  if (arrival.cell.psn == qp.rx.base_psn && packet.fills_wqe) resolve_bases(qp);
  if (packet.state == RxState::kOpen) [[likely]]
    return Step::kCheckLength;
  if (packet.state == RxState::kRefused) return Step::kComplete;
  const Step next = hold(arrival);
  if (next == Step::kDone && was_free) undo_open(arrival);
  return next;
}

/// The place of the packet is not known: there is no receive WQE, or an earlier packet is missing.
Responder::Step Responder::hold(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  if (arrival.packet.fills_wqe && queue_dry(qp, arrival.packet)) {
    if (arrival.distance == 0 && (arrival.cell.has(kCellFirst) || arrival.cell.has(kCellAckWanted)))
      send_rnr(qp);
    return Step::kDone;
  }
  if (!engine_.stash.keep(rx, arrival.cell)) {
    engine_.count(AdapterCounter::kStashFull);
    return Step::kDone;
  }
  qp.counters.add(QpCounter::kCellsStashed);
  arrival.packet.seen |= uint64_t{1} << arrival.cell.cell_number;
  rx.note_untold(arrival.cell.psn);
  return Step::kAcknowledge;
}

Responder::Step Responder::check_length(Arrival& arrival) noexcept {
  const RxPacket& packet = arrival.packet;
  if (!packet.fills_wqe) return Step::kCheckRkey;
  const ResponderFault fault = placement_.check_length(arrival.qp, packet, arrival.end());
  return fault == ResponderFault::kNone ? Step::kExecute : refuse(arrival, fault);
}

Responder::Step Responder::check_rkey(Arrival& arrival) noexcept {
  RxPacket& packet = arrival.packet;
  const ResponderFault fault = placement_.check_rkey(arrival.qp, packet, arrival.end());
  if (fault != ResponderFault::kNone) [[unlikely]]
    return fault == ResponderFault::kAwaitsKey ? wait_for_key(arrival, packet.rkey) : refuse(arrival, fault);
  if (!packet.grant.one_shot || arrival.distance == 0) [[likely]]
    return Step::kExecute;
  // An earlier operation may use up the key, so nothing is written with it out of order (SAN-RMP-12).
  packet.state = RxState::kWaiting;
  packet.waits_turn = true;
  const Step next = hold(arrival);
  if (next == Step::kDone && packet.seen == 0) undo_open(arrival);
  return next;
}

Responder::Step Responder::execute(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  const ResponderFault fault = put(qp, cell.psn, packet, cell.cell_number, cell.payload);
  if (fault != ResponderFault::kNone) [[unlikely]]
    return refuse(arrival, fault);
  packet.seen |= uint64_t{1} << cell.cell_number;
  mark_placed(qp, cell.psn, packet, cell.cell_number);
  if (qp.rx.stash_count != 0) [[unlikely]]
    place_stashed(qp, cell.psn, packet);
  return Step::kComplete;
}

/// Copies checked bytes to their place.
ResponderFault Responder::put(QueuePair& qp, Psn psn, RxPacket& packet, uint32_t number,
                              std::span<const std::byte> data) noexcept {
  const uint64_t begin = uint64_t{number} * qp.path.segment_bytes;
  const ResponderFault fault = qp.rx.highest <= 1
                                   ? placement_.copy(qp, packet, begin, data)
                                   : placement_.copy_among_others(qp, psn, packet, begin, data);
  if (qp.config.packet_crc && fault == ResponderFault::kNone) [[unlikely]]
    Placement::sum_up(qp, packet, number, data);
  return fault;
}

void Responder::mark_placed(QueuePair& qp, Psn psn, RxPacket& packet, uint32_t number) noexcept {
  packet.placed |= uint64_t{1} << number;
  const bool whole = packet.cells != 0 && packet.placed == cell_mask(packet.cells);
  // The cumulative part of an ACK covers the expected packet, so a complete one needs no block.
  if (!whole || psn != qp.rx.expected) qp.rx.note_untold(psn);
  if (whole) {
    packet.state = RxState::kPlaced;
    packet.behind_final = static_cast<uint8_t>(number + 1);  // its ACK reports the packet as executed
  } else {
    (void)add_strict_ack(qp, psn, static_cast<uint16_t>(number));
  }
}

Responder::Step Responder::complete(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  if (arrival.cell.psn == qp.rx.base_psn) resolve_bases(qp);
  const RxPacket* head = qp.rx.find(qp.rx.expected);
  if (head != nullptr && head->state >= RxState::kPlaced) complete_in_order(qp);
  return Step::kAcknowledge;
}

void Responder::acknowledge(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  const bool at_once = arrival.cell.has(kCellAckWanted) || qp.rx.debt.count_cell();
  engine_.schedule.want_ack(qp, at_once, engine_.now);
}

Responder::Step Responder::refuse(Arrival& arrival, ResponderFault fault, uint64_t end) noexcept {
  RxPacket& packet = arrival.packet;
  if (packet.state == RxState::kFree) {
    begin_packet(packet, arrival.cell);
    describe_packet(packet, arrival.cell);
  }
  placement_.refuse(arrival.qp, packet, fault, end);
  arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  packet.state = RxState::kRefused;
  packet.fault = fault;
  if (arrival.distance == 0) complete_in_order(arrival.qp);
  return Step::kDone;
}

// ---- RDMA read --------------------

/// Reads a request into `job` and checks it.
ResponderFault Responder::read_job(const QueuePair& qp, const CellView& cell, ReadJob& job) noexcept {
  if (!whole_request(cell, sizeof(ReadRequestWire))) return ResponderFault::kViolation;
  ReadRequestWire request;
  std::memcpy(&request, cell.payload.data(), sizeof request);
  const uint32_t bytes = request.length.get();
  if (bytes > kReadCellsMax * qp.path.segment_bytes) return ResponderFault::kUnsupported;
  job = {.psn = cell.psn,
         .source_va = request.source_address.get(),
         .sink_va = request.sink_address.get(),
         .source_key = Rkey(request.source_key.get()),
         .sink_key = request.sink_key.get(),
         .srq = cell.srq,
         .bytes = bytes,
         .cells = static_cast<uint8_t>(cells_of(bytes, qp.path.segment_bytes))};
  return placement_.check_read(qp, job);
}

namespace {

/// The QP keeps at most max_dest_rd_atomic requests, as its peer knows. A further one is dropped, and the
/// peer repeats it.
bool has_enough_reads(QueuePair& qp) noexcept {
  if (qp.rx.reads.size() < qp.attr.max_dest_rd_atomic) return false;
  qp.counters.add(QpCounter::kReadsBeyondLimit);
  return true;
}

}  // namespace

Responder::Step Responder::queue_read(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  if (has_enough_reads(qp)) return Step::kDone;
  ReadJob job;
  const ResponderFault fault = read_job(qp, arrival.cell, job);
  if (fault == ResponderFault::kAwaitsKey) return wait_for_key(arrival, job.source_key);
  if (fault != ResponderFault::kNone) {
    begin_packet(packet, arrival.cell);
    packet.state = RxState::kOpen;
    packet.va = job.source_va;
    packet.rkey = job.source_key;
    return refuse(arrival, fault, job.bytes);
  }
  if (arrival.distance != 0) return Step::kDone;  // a read must see the earlier writes
  answer_later(qp, job);
  open_packet(arrival);
  packet.va = job.source_va;
  packet.rkey = job.source_key;
  packet.last_bytes = job.bytes;
  packet.grant = job.grant;
  packet.seen = 1;
  mark_placed(qp, arrival.cell.psn, packet, 0);
  return Step::kComplete;
}

/// InfiniBand orders a read before a later write only by a fence. Adapters that answer reads at once keep the
/// order without one, and programs rely on it (Open MPI's MPI_Get_accumulate). So reads are answered here,
/// within a turn's cells and the lane's credit.
bool Responder::answer_before(QueuePair& qp, const CellView& cell) noexcept {
  if (is_read_request(cell.opcode) && !is_atomic_request(cell.opcode)) return true;
  bool blocked = false;  // if set, the turn sends the rest
  static_cast<void>(send_reads(qp, kCellsPerQpTurn, blocked));
  return qp.abilities().receive;
}

/// A read request with an old PSN: from a correct peer it means that response cells were lost. If the same
/// read was executed with this PSN, it is checked and served again, else ignored: a late copy must not end
/// the connection.
void Responder::repeat_read(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  ReadJob job;
  if (has_enough_reads(qp)) return;
  ResponderFault fault = placement_.check_operation(qp, cell);
  if (fault == ResponderFault::kNone) fault = read_job(qp, cell, job);
  if (fault == ResponderFault::kAwaitsKey) {
    (void)engine_.several_nics->questions.wait(qp, cell, job.source_key.value());
    return;
  }
  if (fault != ResponderFault::kNone) return placement_.count(qp, fault);
  const ExecutedRead asked{job.psn, job.source_key, job.source_va, job.bytes};
  if (find_executed(rx, asked) == nullptr) return qp.counters.add(QpCounter::kReadsNotRepeated);
  job.repeated = true;
  answer_later(qp, job);
}

void Responder::answer_later(QueuePair& qp, const ReadJob& job) noexcept {
  qp.answers |= qp.rx.reads.push(job);
  engine_.schedule.want_send(qp);
}

void Responder::remember_executed(ReceiveSide& rx, const ExecutedRead& executed) noexcept {
  if (rx.executed_reads.full()) rx.executed_reads.pop();
  rx.executed_reads.push(executed);
}

const ExecutedRead* Responder::find_executed(ReceiveSide& rx, const ExecutedRead& asked) noexcept {
  for (size_t i = 0; i < rx.executed_reads.size(); ++i) {
    if (rx.executed_reads.at(i).same_request(asked)) return &rx.executed_reads.at(i);
  }
  return nullptr;
}

// ---- atomic operations --------------------

/// Executes the operation once, as the expected packet, after all checks that could refuse it.
Responder::Step Responder::take_atomic(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = arrival.packet;
  if (has_enough_reads(qp)) return Step::kDone;
  FetchRequestWire request;
  if (!whole_request(arrival.cell, sizeof request)) return refuse(arrival, ResponderFault::kViolation);
  if (arrival.distance != 0) return Step::kDone;  // an atomic must see the earlier writes
  std::memcpy(&request, arrival.cell.payload.data(), sizeof request);
  open_packet(arrival);
  packet.va = request.address.get();
  packet.rkey = Rkey(request.key.get());
  packet.last_bytes = kFetchOperandBytes;
  const bool alone = (packet.flags2 & (kCell2More | kCell2Continues)) == 0;
  ResponderFault fault =
      alone ? placement_.check_turn(qp, packet, kFetchOperandBytes) : ResponderFault::kViolation;
  uint64_t old_value = 0;
  if (fault == ResponderFault::kNone) fault = placement_.execute_atomic(qp, request, packet, old_value);
  if (fault == ResponderFault::kAwaitsKey) return wait_for_key(arrival, packet.rkey);
  if (fault != ResponderFault::kNone) return refuse(arrival, fault, kFetchOperandBytes);
  remember_executed(rx, {.psn = arrival.cell.psn,
                         .key = packet.rkey,
                         .va = packet.va,
                         .bytes = kFetchOperandBytes,
                         .is_atomic = true,
                         .old_value = old_value});
  answer_later(qp, {.psn = arrival.cell.psn, .is_atomic = true, .old_value = old_value, .cells = 1});
  packet.seen = 1;
  mark_placed(qp, arrival.cell.psn, packet, 0);
  return Step::kComplete;
}

/// A request with an old PSN: from a correct peer it means that the response was lost. The old response is
/// sent again, and nothing is executed.
void Responder::repeat_atomic(QueuePair& qp, const CellView& cell) noexcept {
  ReceiveSide& rx = qp.rx;
  FetchRequestWire request;
  if (has_enough_reads(qp)) return;
  if (!whole_request(cell, sizeof request)) return placement_.count(qp, ResponderFault::kViolation);
  std::memcpy(&request, cell.payload.data(), sizeof request);
  const ExecutedRead* done = find_executed(rx, {.psn = cell.psn,
                                                .key = Rkey(request.key.get()),
                                                .va = request.address.get(),
                                                .bytes = kFetchOperandBytes,
                                                .is_atomic = true});
  if (done == nullptr) return qp.counters.add(QpCounter::kReadsNotRepeated);
  answer_later(qp, {.psn = cell.psn, .is_atomic = true, .old_value = done->old_value, .cells = 1});
}

uint32_t Responder::send_reads(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  ReceiveSide& rx = qp.rx;
  uint32_t sent = 0;
  if (rx.reads.empty() || !engine_.path_ready(qp)) return 0;
  while (!rx.reads.empty() && sent < budget && !blocked) {
    ReadJob& job = rx.reads.front();
    // If the key was revoked in the meantime, the rest is not read. A repetition may be an old copy, so this
    // ends nothing here: the requester asks until its retries are used up.
    const ResponderFault fault = job.is_atomic ? ResponderFault::kNone : placement_.check_read(qp, job);
    if (fault != ResponderFault::kNone) {
      placement_.count(qp, fault);
      rx.reads.pop();
      continue;
    }
    const CellSent result =
        job.is_atomic ? writer_.send_atomic_response(qp, job) : writer_.send_read_response(qp, job);
    if (result == CellSent::kLocalFault) [[unlikely]] {
      if (drop_read(qp, job)) continue;
      break;
    }
    if (result == CellSent::kNoCredit) {
      blocked = true;
      qp.counters.add(QpCounter::kCreditStalls);
      break;
    }
    ++sent;
    if (++job.next == job.cells) rx.reads.pop();
  }
  qp.answers = !rx.reads.empty();
  if (!qp.answers && qp.abilities().receive) answer_after_reads(qp);
  qp.counters.add(QpCounter::kCellsSent, sent);
  engine_.count_sent(engine_.port_of(qp), sent);
  return sent;
}

}  // namespace weft::adapter
