// How it works: a cell goes through check_psn, check_sequence, check_operation, check_resources,
// check_length, check_rkey, execute, complete and acknowledge; each step returns the next one, which is
// always further down. The first cells of a packet open it: an RDMA write when the cell with its address has
// come, a Send when every Send before it is known, because receive WQEs are taken strictly in PSN order.
// Cells of a packet that is not open wait in the stash and count as received. Data is placed by cell number,
// in whatever order cells arrive; packets are executed in PSN order, and only then does anything become
// visible: completions, acknowledgement of the last cell, NAKs. A packet that fails a check is marked and
// answered when its turn comes. Whatever allowed a placement is asked again when the packet is executed, for
// rights and keys end meanwhile. What has been acknowledged is never forgotten.
#include "adapter/transport/responder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/transport/acknowledger.h"
#include "adapter/transport/responder_faults.h"
#include "adapter/transport/rnr_timer.h"
#include "base/crc32c.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

[[nodiscard]] bool is_read_request(const CellView& cell) noexcept {
  return (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kOpReadsMemory) != 0;
}

}  // namespace

void Responder::take_request(QueuePair& qp, const CellView& cell) noexcept {
  Arrival arrival{.qp = qp, .cell = cell, .packet = qp.rx.at(cell.psn)};
  Step step = check_psn(arrival);
  if (step == Step::kCheckSequence) step = check_sequence(arrival);
  if (step == Step::kCheckOperation) step = check_operation(arrival);
  if (step == Step::kCheckResources) step = check_resources(arrival);
  if (step == Step::kCheckLength) step = check_length(arrival);
  if (step == Step::kCheckRkey) step = check_rkey(arrival);
  if (step == Step::kExecute) step = execute(arrival);
  if (step == Step::kComplete) step = complete(arrival);
  if (step == Step::kAcknowledge) acknowledge(arrival);
}

Responder::Step Responder::check_psn(Arrival& arrival) noexcept {
  ReceiveSide& rx = arrival.qp.rx;
  const int32_t distance = arrival.cell.psn.distance_from(rx.expected);
  if (distance < 0) return take_duplicate(arrival);
  if (static_cast<uint32_t>(distance) >= kPacketWindow) {
    arrival.qp.counters.add(QpCounter::kBeyondWindow);
    set_nak(arrival.qp, AckCode::kSequenceError, rx.expected,
            static_cast<uint16_t>(std::countr_one(rx.at(rx.expected).seen)));
    engine_.want_ack(arrival.qp, true);
    return Step::kDone;
  }
  arrival.distance = static_cast<uint64_t>(distance);
  return Step::kCheckSequence;
}

Responder::Step Responder::take_duplicate(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  qp.counters.add(QpCounter::kDuplicateCells);
  if (is_read_request(arrival.cell)) return repeat_read(arrival);
  if (!add_strict_ack(qp, arrival.cell.psn, arrival.cell.cell_number)) return Step::kDone;
  engine_.want_ack(qp, true);
  return Step::kDone;
}

bool Responder::consistent(const Arrival& arrival) const noexcept {
  const RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kFree) return true;
  if (packet.opcode != cell.opcode || packet.flags2 != cell.flags2) return false;
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
    packet.dirty = true;
    if (cell.psn == qp.rx.base_psn) resolve_bases(qp);
    complete_in_order(qp);
    if (qp.rx.blocked && cell.psn == qp.rx.expected) send_rnr(qp);
    if ((packet.placed & bit) != 0 && packet.final_cell != cell.cell_number &&
        !add_strict_ack(qp, cell.psn, cell.cell_number)) {
      return Step::kDone;
    }
    engine_.want_ack(qp, true);
    return Step::kDone;
  }
  if (!consistent(arrival)) return refuse(arrival, ResponderFault::kViolation);
  note_turn(arrival);
  return packet.state == RxState::kFree ? Step::kCheckOperation : Step::kCheckResources;
}

/// Notices that cells are missing before this one: the sender is told at once.
void Responder::note_turn(Arrival& arrival) noexcept {
  ReceiveSide& rx = arrival.qp.rx;
  const CellView& cell = arrival.cell;
  if (cell.psn == rx.next_psn && cell.cell_number == rx.next_cell) [[likely]] {
    // in turn
  } else if (cell.psn.before(rx.next_psn) || (cell.psn == rx.next_psn && cell.cell_number < rx.next_cell)) {
    return;  // fills a gap
  } else {
    arrival.qp.counters.add(QpCounter::kGapsSeen);
    engine_.want_ack(arrival.qp, true);
  }
  rx.next_psn = cell.has(kCellLast) ? cell.psn.plus(1) : cell.psn;
  rx.next_cell = cell.has(kCellLast) ? 0 : cell.cell_number + 1U;
}

Responder::Step Responder::check_operation(Arrival& arrival) noexcept {
  const ResponderFault fault = placement_.check_operation(arrival.qp, arrival.cell);
  if (fault != ResponderFault::kNone) return refuse(arrival, fault);
  return is_read_request(arrival.cell) ? queue_read(arrival) : Step::kCheckResources;
}

void Responder::open_packet(Arrival& arrival) noexcept {
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kFree) {
    begin_packet(packet, cell);
    packet.state = RxState::kWaiting;
    arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  }
  describe_packet(packet, cell);
  if (cell.has(kCellVa) && packet.state == RxState::kWaiting) packet.state = RxState::kOpen;
}

Responder::Step Responder::check_resources(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  if (strict_acks_full(qp)) return Step::kDone;
  const bool was_free = packet.state == RxState::kFree;
  open_packet(arrival);
  if (arrival.cell.psn == qp.rx.base_psn && packet.fills_wqe) resolve_bases(qp);
  if (packet.state == RxState::kOpen) [[likely]]
    return Step::kCheckLength;
  if (packet.state == RxState::kRefused) return Step::kComplete;
  const Step next = hold(arrival);
  if (next == Step::kDone && was_free) packet.state = RxState::kFree;  // not kept: as if it had never come
  return next;
}

/// The packet's place is not known: no receive WQE, or something before it is missing.
Responder::Step Responder::hold(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  if (arrival.packet.fills_wqe && qp.rq->empty()) {
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
  arrival.packet.dirty = true;
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
    return refuse(arrival, fault);
  if (!packet.grant.one_shot || arrival.distance == 0) [[likely]]
    return Step::kExecute;
  // An operation before this one may use the key up: nothing is written under it out of turn (SAN-RMP-12).
  packet.state = RxState::kWaiting;
  packet.waits_turn = true;
  const Step next = hold(arrival);
  if (next == Step::kDone && packet.seen == 0) packet.state = RxState::kFree;  // as if it had never come
  return next;
}

Responder::Step Responder::execute(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  const ResponderFault fault = placement_.copy(qp, packet, arrival.begin(), cell.payload);
  if (fault != ResponderFault::kNone) [[unlikely]]
    return refuse(arrival, fault);
  packet.seen |= uint64_t{1} << cell.cell_number;
  mark_placed(qp, cell.psn, packet, cell.cell_number);
  if (qp.rx.stash_count != 0) [[unlikely]]
    place_stashed(qp, cell.psn, packet);
  return Step::kComplete;
}

void Responder::mark_placed(QueuePair& qp, Psn psn, RxPacket& packet, uint32_t number) noexcept {
  packet.placed |= uint64_t{1} << number;
  packet.dirty = true;
  if (packet.cells != 0 && packet.placed == cell_mask(packet.cells)) {
    packet.state = RxState::kPlaced;
    packet.final_cell = static_cast<uint8_t>(number);  // its own ACK says that the packet was executed
  } else {
    (void)add_strict_ack(qp, psn, static_cast<uint16_t>(number));
  }
}

Responder::Step Responder::complete(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  if (arrival.cell.psn == qp.rx.base_psn) resolve_bases(qp);
  if (qp.rx.at(qp.rx.expected).state >= RxState::kPlaced) complete_in_order(qp);
  return Step::kAcknowledge;
}

void Responder::acknowledge(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  const bool at_once = arrival.cell.has(kCellAckWanted) || ++qp.rx.cells_since_ack >= kCellsPerAck;
  engine_.want_ack(qp, at_once);
}

Responder::Step Responder::refuse(Arrival& arrival, ResponderFault fault) noexcept {
  RxPacket& packet = arrival.packet;
  placement_.count(arrival.qp, fault);
  arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  packet.state = RxState::kRefused;
  packet.fault = fault;
  if (arrival.distance == 0) complete_in_order(arrival.qp);
  return Step::kDone;
}

// ---- RDMA read --------------------

/// The read that a request asks for; its check says whether it may be.
ResponderFault Responder::read_job(const Arrival& arrival, ReadJob& job) noexcept {
  const QueuePair& qp = arrival.qp;
  const CellView& cell = arrival.cell;
  if (cell.payload.size() != sizeof(ReadRequestWire)) return ResponderFault::kViolation;
  ReadRequestWire request;
  std::memcpy(&request, cell.payload.data(), sizeof request);
  const uint32_t bytes = request.length.get();
  if (bytes > kReadCellsMax * qp.path.segment_bytes) return ResponderFault::kUnsupported;
  job = {.psn = cell.psn,
         .source_va = request.source_address.get(),
         .sink_va = request.sink_address.get(),
         .source_key = Rkey(request.source_key.get()),
         .sink_key = request.sink_key.get(),
         .bytes = bytes,
         .cells = static_cast<uint8_t>(cells_of(bytes, qp.path.segment_bytes))};
  return placement_.check_read(qp, job);
}

Responder::Step Responder::queue_read(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  RxPacket& packet = arrival.packet;
  if (rx.reads.size() >= qp.attr.max_dest_rd_atomic) return Step::kDone;  // not received: it will come again
  ReadJob job;
  const ResponderFault fault = read_job(arrival, job);
  if (fault != ResponderFault::kNone) return refuse(arrival, fault);
  if (arrival.distance != 0) return Step::kDone;  // reads see what was written before them
  rx.reads.push(job);
  engine_.want_send(qp);
  open_packet(arrival);
  packet.va = job.source_va;
  packet.rkey = job.source_key;
  packet.last_bytes = job.bytes;
  packet.grant = job.grant;
  packet.seen = 1;
  mark_placed(qp, arrival.cell.psn, packet, 0);
  return Step::kComplete;
}

/// A read request under an old PSN: response cells were lost, says an honest peer. It is served again if just
/// this read was executed there, by the same checks; otherwise nothing happens, for a late copy ends nothing.
Responder::Step Responder::repeat_read(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  ReadJob job;
  if (rx.reads.size() >= qp.attr.max_dest_rd_atomic) return Step::kDone;
  ResponderFault fault = placement_.check_operation(qp, arrival.cell);
  if (fault == ResponderFault::kNone) fault = read_job(arrival, job);
  if (fault != ResponderFault::kNone) {
    placement_.count(qp, fault);
    return Step::kDone;
  }
  bool executed = false;
  for (size_t i = 0; i < rx.executed_reads.size() && !executed; ++i) {
    executed = rx.executed_reads.at(i) == ExecutedRead{job.psn, job.source_key, job.source_va, job.bytes};
  }
  if (!executed) {
    qp.counters.add(QpCounter::kReadsNotRepeated);
    return Step::kDone;
  }
  rx.reads.push(job);
  engine_.want_send(qp);
  return Step::kDone;
}

uint32_t Responder::send_reads(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  ReceiveSide& rx = qp.rx;
  uint32_t sent = 0;
  if (rx.reads.empty() || !engine_.path_ready(qp)) return 0;
  while (!rx.reads.empty() && sent < budget && !blocked) {
    ReadJob& job = rx.reads.front();
    const uint32_t begin = job.next * qp.path.segment_bytes;
    // Revoked meanwhile: what is left is not read. The request was executed once, so that a repetition may be
    // an old one and ends nothing: the requester asks until its retries are used up.
    if (const ResponderFault fault = placement_.check_read(qp, job); fault != ResponderFault::kNone) {
      placement_.count(qp, fault);
      rx.reads.pop();
      continue;
    }
    if (segmenter_.send_read_response(qp, job, job.grant.at + begin) == CellSent::kNoCredit) {
      blocked = true;
      qp.counters.add(QpCounter::kCreditStalls);
      break;
    }
    ++sent;
    if (++job.next == job.cells) rx.reads.pop();
  }
  qp.counters.add(QpCounter::kCellsSent, sent);
  engine_.counters.add(AdapterCounter::kCellsSent, sent);
  return sent;
}

}  // namespace weft::adapter
