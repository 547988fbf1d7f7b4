// How it works: a cell goes through check_psn, check_sequence, check_operation, check_resources,
// check_length, check_rkey, execute, complete and acknowledge; each step returns the next one, which is
// always further down. The first cells of a packet open it: an RDMA write when the cell with its address has
// come, a Send when every Send before it is known, because receive WQEs are taken strictly in PSN order.
// Cells of a packet that is not open wait in the stash and count as received. Data is placed by cell number,
// in whatever order cells arrive; packets are executed in PSN order, and only then does anything become
// visible: completions, acknowledgement of the last cell, NAKs. A packet that fails a check is marked and
// answered when its turn comes. What has been acknowledged is never forgotten.
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
  if (arrival.cell.opcode == Opcode::kRdmaReadRequest) {
    arrival.read_again = true;
    return queue_read(arrival);
  }
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
  const QueuePair& qp = arrival.qp;
  switch (arrival.cell.opcode) {
    case Opcode::kSend:
      return Step::kCheckResources;
    case Opcode::kRdmaWrite:
      if (!has(qp.attr.access, Access::kRemoteWrite) || !engine_.config.limits.inbound_rdma) break;
      return Step::kCheckResources;
    case Opcode::kRdmaReadRequest:
      if (!has(qp.attr.access, Access::kRemoteRead) || !engine_.config.limits.inbound_rdma) break;
      if (qp.attr.max_dest_rd_atomic == 0) break;
      return queue_read(arrival);
    case Opcode::kFetchOpRequest:
    case Opcode::kTerminate:
    case Opcode::kStreamSegment:
    case Opcode::kRaw:
    case Opcode::kUdSend:
    case Opcode::kRdmaReadResponse:
    case Opcode::kFetchOpResponse:
    case Opcode::kAck:
    case Opcode::kNak:
      break;
  }
  return refuse(arrival, ResponderFault::kUnsupported);
}

void Responder::open_packet(Arrival& arrival) noexcept {
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.state == RxState::kFree) {
    packet = {};
    packet.state = RxState::kWaiting;
    packet.opcode = cell.opcode;
    packet.flags2 = cell.flags2;
    arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  }
  if (cell.has(kCellLast)) {
    packet.cells = static_cast<uint8_t>(cell.cell_number + 1U);
    packet.last_bytes = static_cast<uint32_t>(cell.payload.size());
  }
  if (cell.has(kCellIdata)) {
    packet.has_imm = true;
    packet.imm = cell.idata;
    packet.idata_cells |= uint64_t{1} << cell.cell_number;
  }
  if (cell.has(kCellInvalidateKey)) packet.invalidates = true;
  if (cell.has(kCellPacketCrc)) {
    packet.has_packet_crc = true;
    packet.packet_crc = cell.packet_crc;
  }
  if (cell.has(kCellVa) && packet.state == RxState::kWaiting) {
    packet.va = cell.va;
    packet.rkey = cell.rkey;
    packet.state = RxState::kOpen;
  }
}

Responder::Step Responder::check_resources(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  if (strict_acks_full(qp)) return Step::kDone;
  const bool was_free = packet.state == RxState::kFree;
  open_packet(arrival);
  if (arrival.cell.psn == qp.rx.base_psn && packet.opcode == Opcode::kSend) resolve_bases(qp);
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
  if (arrival.packet.opcode == Opcode::kSend && qp.rq.empty()) {
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
  if (packet.opcode != Opcode::kSend) return Step::kCheckRkey;
  QueuePair& qp = arrival.qp;
  const uint64_t end = uint64_t{packet.offset} + arrival.cell.cell_number * qp.path.segment_bytes +
                       arrival.cell.payload.size();
  if (end > qp.rq.at(packet.wqe).bytes) return refuse(arrival, ResponderFault::kTooLong);
  return Step::kExecute;
}

/// The range of a packet is known only with its last cell. The grant for its first cell says how much room
/// there is behind; later cells need no look-up while they stay inside and no key was revoked.
Responder::Step Responder::check_rkey(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  const uint64_t begin = uint64_t{arrival.cell.cell_number} * qp.path.segment_bytes;
  const uint64_t end = begin + arrival.cell.payload.size();
  if (packet.revision != engine_.memory.revision() || end > packet.grant.room) {
    const AccessFault fault = engine_.memory.check_remote(qp.config.pd, packet.rkey, packet.va, end,
                                                          AccessKind::kRemoteWrite, packet.grant);
    if (fault != AccessFault::kNone) [[unlikely]] {
      engine_.faults.add(fault);
      return refuse(arrival, ResponderFault::kRemoteAccess);
    }
    packet.revision = engine_.memory.revision();
  }
  arrival.at = packet.grant.at + begin;
  return Step::kExecute;
}

Responder::Step Responder::execute(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  RxPacket& packet = arrival.packet;
  const CellView& cell = arrival.cell;
  if (packet.opcode == Opcode::kSend) {
    const uint64_t offset = uint64_t{packet.offset} + cell.cell_number * qp.path.segment_bytes;
    if (segmenter_.place_received(qp, packet.wqe, offset, cell.payload) != AccessFault::kNone) {
      return refuse(arrival, ResponderFault::kLocalAccess);
    }
  } else if (!cell.payload.empty()) {
    std::memcpy(arrival.at, cell.payload.data(), cell.payload.size());
  }
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
  if (fault == ResponderFault::kViolation) arrival.qp.counters.add(QpCounter::kProtocolViolations);
  if (fault == ResponderFault::kRemoteAccess) arrival.qp.counters.add(QpCounter::kAccessRefused);
  arrival.qp.rx.highest = std::max(arrival.qp.rx.highest, arrival.distance + 1);
  packet.state = RxState::kRefused;
  packet.fault = fault;
  if (arrival.distance == 0) complete_in_order(arrival.qp);
  return Step::kDone;
}

// ---- RDMA read --------------------

Responder::Step Responder::queue_read(Arrival& arrival) noexcept {
  QueuePair& qp = arrival.qp;
  ReceiveSide& rx = qp.rx;
  const CellView& cell = arrival.cell;
  if (cell.payload.size() != sizeof(ReadRequestWire)) {
    return arrival.read_again ? Step::kDone : refuse(arrival, ResponderFault::kViolation);
  }
  if (rx.reads.size() >= qp.attr.max_dest_rd_atomic) return Step::kDone;  // not received: it will come again
  ReadRequestWire request;
  std::memcpy(&request, cell.payload.data(), sizeof request);
  const ReadJob job{.psn = cell.psn,
                    .source_va = request.source_address.get(),
                    .sink_va = request.sink_address.get(),
                    .source_key = Rkey(request.source_key.get()),
                    .sink_key = request.sink_key.get(),
                    .bytes = request.length.get(),
                    .cells = static_cast<uint8_t>(cells_of(request.length.get(), qp.path.segment_bytes))};
  RemoteGrant grant;
  const bool too_long = request.length.get() > kReadCellsMax * qp.path.segment_bytes;
  const AccessFault fault = engine_.memory.check_remote(qp.config.pd, job.source_key, job.source_va,
                                                        job.bytes, AccessKind::kRemoteRead, grant);
  if (too_long || fault != AccessFault::kNone) {
    if (fault != AccessFault::kNone) engine_.faults.add(fault);
    if (arrival.read_again) return Step::kDone;
    return refuse(arrival, too_long ? ResponderFault::kUnsupported : ResponderFault::kRemoteAccess);
  }
  if (!arrival.read_again && arrival.distance != 0)
    return Step::kDone;  // reads see what was written before them
  rx.reads.push(job);
  engine_.want_send(qp);
  if (arrival.read_again) return Step::kDone;
  open_packet(arrival);
  arrival.packet.grant = grant;
  arrival.packet.seen = 1;
  mark_placed(qp, cell.psn, arrival.packet, 0);
  return Step::kComplete;
}

uint32_t Responder::send_reads(QueuePair& qp, uint32_t budget, bool& blocked) noexcept {
  ReceiveSide& rx = qp.rx;
  uint32_t sent = 0;
  if (rx.reads.empty() || !engine_.path_ready(qp)) return 0;
  while (!rx.reads.empty() && sent < budget && !blocked) {
    ReadJob& job = rx.reads.front();
    const uint32_t begin = job.next * qp.path.segment_bytes;
    const uint32_t bytes = std::min(qp.path.segment_bytes, job.bytes - begin);
    RemoteGrant grant;
    const AccessFault fault = engine_.memory.check_remote(qp.config.pd, job.source_key, job.source_va + begin,
                                                          bytes, AccessKind::kRemoteRead, grant);
    // Revoked meanwhile: what is left is not read. The request was executed once, so that a repetition may be
    // an old one and ends nothing: the requester asks until its retries are used up.
    if (fault != AccessFault::kNone) {
      engine_.faults.add(fault);
      rx.reads.pop();
      continue;
    }
    if (segmenter_.send_read_response(qp, job, grant.at) == CellSent::kNoCredit) {
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
