#include "adapter/transport/placement.h"

#include <atomic>
#include <cstring>

#include "adapter/memory/guarded_copy.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"

namespace weft::adapter {
namespace {

[[nodiscard]] uint32_t properties_of(Opcode opcode) noexcept {
  return opcode_properties(static_cast<uint8_t>(opcode));
}

/// False when the memory is no longer mapped.
[[nodiscard]] bool copy_in(const MemoryTable& memory, std::byte* to,
                           std::span<const std::byte> data) noexcept {
  const auto copy = [&](std::byte* at, uint64_t bytes) { copy_guarded(at, data.data(), bytes); };
  return memory.checks.reach(copy, to, data.size()) == AccessFault::kNone;
}

}  // namespace

void begin_packet(RxPacket& packet, const CellView& cell) noexcept {
  packet = {};
  packet.opcode = cell.opcode;
  packet.flags2 = cell.flags2 & kCell2OfPacket;
  packet.srq = cell.srq;
  packet.fills_wqe = (properties_of(cell.opcode) & kOpNeedsRecvWqe) != 0;
}

void describe_packet(RxPacket& packet, const CellView& cell) noexcept {
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
  if (cell.cell_number != 0) return;
  packet.va = cell.va;
  packet.rkey = cell.rkey;
  packet.revision = 0;  // a grant for another address does not hold for this one
}

ResponderFault Placement::check_operation(const QueuePair& qp, const CellView& cell) const noexcept {
  const uint32_t properties = properties_of(cell.opcode);
  if ((properties & kOpRequest) == 0 || (properties & qp.row->takes) == 0) {
    return ResponderFault::kUnsupported;
  }
  // A datagram is one packet.
  const bool datagram = (properties & (kOpOnRc | kOpOnUc | kOpOnXrc)) == 0;
  if (datagram && (cell.flags2 & (kCell2More | kCell2Continues)) != 0) return ResponderFault::kViolation;
  if ((properties & kOpDatagramHeader) != 0 && cell.qkey != qp.attr.qkey) return ResponderFault::kWrongQkey;
  if (domain_of(qp, cell.srq) == nullptr) return ResponderFault::kWrongSrq;
  return check_rights(qp, cell.opcode);
}

ResponderFault Placement::check_rights(const QueuePair& qp, Opcode opcode) const noexcept {
  const uint32_t properties = properties_of(opcode);
  if ((properties & (kOpWritesMemory | kOpReadsMemory)) == 0) return ResponderFault::kNone;
  const bool reads = (properties & kOpReadsMemory) != 0;
  const bool writes = (properties & kOpWritesMemory) != 0;
  const Access right = !reads ? Access::kRemoteWrite : writes ? Access::kRemoteAtomic : Access::kRemoteRead;
  const bool none = reads && qp.attr.max_dest_rd_atomic == 0;
  const bool granted = has(qp.attr.access, right) && engine_.config.limits.inbound_rdma && !none;
  return granted ? ResponderFault::kNone : ResponderFault::kNotGranted;
}

/// Notes a refusal and returns whose fault it is: the peer's, or this node's if the entry allows the access
/// and no page is mapped (C-30).
ResponderFault Placement::refused(AccessFault fault) noexcept {
  engine_.faults.add(fault);
  refused_ = fault;
  return fault == AccessFault::kNotMapped ? ResponderFault::kLocalAccess : ResponderFault::kRemoteAccess;
}

ResponderFault Placement::look_up(const QueuePair& qp, RxPacket& packet, uint64_t end,
                                  bool accepted) noexcept {
  const PdId* pd = domain_of(qp, packet.srq);
  if (pd == nullptr) return ResponderFault::kWrongSrq;
  // A message without bytes touches no memory, so its key is not checked, as in InfiniBand.
  if (end == 0) {
    packet.grant = {};
    return ResponderFault::kNone;
  }
  const uint32_t binding = packet.grant.binding;
  const MemoryTable* list = &engine_.memory;
  if (engine_.several_nics != nullptr) [[unlikely]] {
    const bool granted = accepted && packet.revision != 0;
    list = granted ? &engine_.computer.of_nic(packet.grant.nic) : &list_for(qp, packet.rkey);
  }
  AccessFault fault = list->checks.check_remote({*pd, qp.qpn}, packet.rkey, packet.va, end,
                                                AccessKind::kRemoteWrite, packet.grant);
  // The key was bound anew after the first bytes of the packet were placed; they lie in the old memory.
  const bool moved = packet.revision != 0 && packet.grant.binding != binding;
  if (fault == AccessFault::kNone && moved) fault = AccessFault::kNotValid;
  if (fault != AccessFault::kNone) [[unlikely]]
    return !accepted && may_ask(qp, fault, packet.rkey) ? ResponderFault::kAwaitsKey : refused(fault);
  packet.revision = engine_.computer.revision();
  return ResponderFault::kNone;
}

ResponderFault Placement::copy(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                               std::span<const std::byte> data) noexcept {
  if (packet.fills_wqe) {
    const AccessFault fault = writer_.place_received(*qp.rq, packet.wqe, packet.offset + begin, data);
    if (fault != AccessFault::kNone) [[unlikely]]
      refused_ = fault;
    return fault == AccessFault::kNone ? ResponderFault::kNone : ResponderFault::kLocalAccess;
  }
  const std::byte* from = data.data();
  const AccessFault fault = engine_.memory.checks.visit_granted(
      packet.grant, begin, data.size(), AccessKind::kRemoteWrite, [&](std::byte* at, uint64_t bytes) {
        copy_guarded(at, from, bytes);
        from += bytes;
      });
  return fault == AccessFault::kNone ? ResponderFault::kNone : refused(fault);
}

ResponderFault Placement::check_place(QueuePair& qp, RxPacket& packet, uint64_t end) noexcept {
  const ResponderFault fault = check_length(qp, packet, end);
  return fault == ResponderFault::kNone && !packet.fills_wqe ? check_rkey(qp, packet, end, true) : fault;
}

ResponderFault Placement::place(QueuePair& qp, RxPacket& packet, uint64_t begin,
                                std::span<const std::byte> data) noexcept {
  const uint64_t end = begin + data.size();
  ResponderFault fault = check_length(qp, packet, end);
  if (fault == ResponderFault::kNone && !packet.fills_wqe) fault = check_rkey(qp, packet, end);
  return fault == ResponderFault::kNone ? copy(qp, packet, begin, data) : fault;
}

bool Placement::write_at_once(QueuePair& qp, const CellView& cell) noexcept {
  const std::span<const std::byte> data = cell.payload;
  if (check_rights(qp, cell.opcode) != ResponderFault::kNone) return false;
  if (data.size() > engine_.config.limits.message_bytes_max) return false;
  if (data.empty()) return true;  // touches no memory, as in look_up()
  std::byte* at =
      qp.rx.order->target.find(cell.rkey.value(), cell.va, data.size(), engine_.computer.revision());
  if (at != nullptr) [[likely]]
    return copy_in(engine_.memory, at, data);
  return write_by_table(qp, cell);
}

/// The range that was used last does not have the bytes.
bool Placement::write_by_table(QueuePair& qp, const CellView& cell) noexcept {
  const std::span<const std::byte> data = cell.payload;
  RemoteGrant grant;
  const AccessFault fault = qp.memory->checks.check_remote({qp.config.pd, qp.qpn}, cell.rkey, cell.va,
                                                           data.size(), AccessKind::kRemoteWrite, grant);
  if (fault != AccessFault::kNone || grant.at == nullptr || !copy_in(engine_.memory, grant.at, data))
    return false;
  engine_.memory.checks.finish_remote(grant);
  if (!grant.one_shot)
    qp.rx.order->target.learn(grant, cell.rkey.value(), cell.va, engine_.computer.revision());
  return true;
}

bool Placement::write_on(const RxPacket& packet, uint64_t begin, std::span<const std::byte> data) noexcept {
  const bool stands = !packet.fills_wqe && packet.revision == engine_.computer.revision();
  const bool within = begin + data.size() <= packet.grant.room && packet.grant.at != nullptr;
  return stands && within && copy_in(engine_.memory, packet.grant.at + begin, data);
}

bool Placement::receive_at_once(RecvQueue& queue, std::span<const std::byte> data,
                                KnownRange* known) noexcept {
  const RecvSlot slot = queue.next();
  const RecvWqe& wqe = queue.at(slot);
  if (wqe.sge_count != 1 || data.empty() || data.size() > wqe.bytes) return false;
  const Sge& sge = *queue.sges(slot);
  const uint32_t key = sge.lkey.value();
  std::byte* at =
      known == nullptr ? nullptr : known->find(key, sge.addr, sge.length, engine_.computer.revision());
  if (at == nullptr) {
    const MemoryTable& list = engine_.computer.of(key);
    if (list.checks.check_local(queue.pd(), sge, AccessKind::kLocalWrite, at) != AccessFault::kNone)
      return false;
    if (known != nullptr) known->learn(list, sge, at);
  }
  return at != nullptr && copy_in(engine_.memory, at, data);
}

ResponderFault Placement::check_turn(QueuePair& qp, RxPacket& packet, uint32_t bytes) noexcept {
  const MessageUnderWay& message = qp.rx.message;
  const bool continues = (packet.flags2 & kCell2Continues) != 0;
  const bool same = packet.opcode == message.opcode_ && packet.srq == message.srq_;
  if (continues != message.goes_on_ || (continues && !same)) return ResponderFault::kViolation;
  if (domain_of(qp, packet.srq) == nullptr) return ResponderFault::kWrongSrq;
  const uint64_t before = continues ? message.bytes_ : 0;
  if (before + bytes > engine_.config.limits.message_bytes_max) return ResponderFault::kTooLong;
  if (packet.fills_wqe) return ResponderFault::kNone;
  // All packets of one operation must form one range under one key.
  if (continues && (packet.rkey != message.key_ || packet.va != message.va_ + before)) {
    return ResponderFault::kViolation;
  }
  const ResponderFault fault = check_rights(qp, packet.opcode);
  if (fault != ResponderFault::kNone || (properties_of(packet.opcode) & kOpReadsMemory) != 0) return fault;
  return check_rkey(qp, packet, bytes, true);
}

void Placement::pass_turn(QueuePair& qp, const RxPacket& packet, uint32_t bytes) noexcept {
  MessageUnderWay& message = qp.rx.message;
  if (!message.goes_on_) {
    message.bytes_ = 0;
    message.va_ = packet.va;
    message.key_ = packet.rkey;
    message.opcode_ = packet.opcode;
    message.srq_ = packet.srq;
  }
  message.bytes_ += bytes;
  message.goes_on_ = packet.more();
}

ResponderFault Placement::finish(QueuePair& qp, const RxPacket& last) noexcept {
  // A Send names the key in its four bytes; a write means the key under which it has written (MIG-INV-01).
  if (last.invalidates && (last.has_imm || !last.fills_wqe)) {
    if (!qp.acknowledged()) return ResponderFault::kUnsupported;
    const PdId* pd = domain_of(qp, last.srq);
    if (pd == nullptr) return ResponderFault::kWrongSrq;
    const AccessFault fault = invalidate(qp, *pd, last.fills_wqe ? Rkey(last.imm) : last.rkey);
    if (fault != AccessFault::kNone) return refused(fault);
  }
  if (!last.fills_wqe) engine_.memory.checks.finish_remote(last.grant);
  return ResponderFault::kNone;
}

/// An invalidation takes effect at the NIC that made the key, and the program component carries it to all
/// others (MIG-INV-03).
AccessFault Placement::invalidate(const QueuePair& qp, PdId pd, Rkey key) noexcept {
  const bool own = nic_of_key(key.value()) == qp.memory->number();
  KeyDirectory* directory =
      engine_.several_nics != nullptr ? engine_.several_nics->questions.directory() : nullptr;
  if (own || directory == nullptr) return qp.memory->windows.invalidate_for_peer({pd, qp.qpn}, key);
  return directory->invalidate(qp.memory->number(), {pd, qp.qpn}, key);
}

ResponderFault Placement::check_read(const QueuePair& qp, ReadJob& job) noexcept {
  const ResponderFault fault = check_rights(qp, Opcode::kRdmaReadRequest);
  const bool begun = job.revision != 0;
  if (job.bytes == 0) return fault;  // touches no memory, as in look_up()
  if (fault != ResponderFault::kNone || job.revision == engine_.computer.revision()) return fault;
  const PdId* pd = domain_of(qp, job.srq);
  if (pd == nullptr) return ResponderFault::kWrongSrq;
  AccessFault why = AccessFault::kNone;
  if (begun && job.grant.one_shot) {  // the one-shot key was used by this read
    if (!engine_.memory.checks.still_bound(job.grant)) why = AccessFault::kNotValid;
  } else {
    RemoteGrant grant;
    const MemoryTable& list = begun ? engine_.computer.of_nic(job.grant.nic) : list_for(qp, job.source_key);
    why = list.checks.check_remote({*pd, qp.qpn}, job.source_key, job.source_va, job.bytes,
                                   AccessKind::kRemoteRead, grant);
    if (!begun && may_ask(qp, why, job.source_key)) return ResponderFault::kAwaitsKey;
    const bool moved = begun && grant.binding != job.grant.binding;
    if (why == AccessFault::kNone && moved) why = AccessFault::kNotValid;
    if (why == AccessFault::kNone) job.grant = grant;
  }
  if (why != AccessFault::kNone) return refused(why);
  job.revision = engine_.computer.revision();
  return ResponderFault::kNone;
}

ResponderFault Placement::execute_atomic(const QueuePair& qp, const FetchRequestWire& request,
                                         RxPacket& packet, uint64_t& old_value) noexcept {
  const PdId* pd = domain_of(qp, packet.srq);
  if (pd == nullptr) return ResponderFault::kWrongSrq;
  if (request.operand_bytes != kFetchOperandBytes) return ResponderFault::kUnsupported;
  const uint64_t va = request.address.get();
  std::byte* at = nullptr;
  uint64_t room = 0;
  const Rkey key(request.key.get());
  AccessFault fault = list_for(qp, key).checks.check_remote({*pd, qp.qpn}, key, va, kFetchOperandBytes,
                                                            AccessKind::kRemoteAtomic, packet.grant);
  if (may_ask(qp, fault, key)) return ResponderFault::kAwaitsKey;
  if (fault == AccessFault::kNone) {
    fault =
        engine_.memory.checks.visit_granted(packet.grant, 0, kFetchOperandBytes, AccessKind::kRemoteAtomic,
                                            [&](std::byte* piece, uint64_t bytes) {
                                              at = piece;
                                              room = bytes;
                                            });
  }
  if (fault != AccessFault::kNone) return refused(fault);
  // The address that the peer uses may be aligned where the memory is not.
  const bool aligned =
      va % kFetchOperandBytes == 0 && reinterpret_cast<uintptr_t>(at) % kFetchOperandBytes == 0;
  misaligned_ = !aligned || room != kFetchOperandBytes;
  if (misaligned_) return ResponderFault::kUnsupported;
  const auto operation = static_cast<FetchOp>(request.operation);
  if (operation != FetchOp::kCompareSwap && operation != FetchOp::kFetchAdd)
    return ResponderFault::kUnsupported;
  fault = engine_.memory.checks.reach(
      [&](std::byte* word, uint64_t /*bytes*/) {
        old_value = operation == FetchOp::kFetchAdd
                        ? fetch_add_guarded(word, request.operand.get())
                        : compare_swap_guarded(word, request.compare.get(), request.operand.get());
      },
      at, room);
  return fault == AccessFault::kNone ? ResponderFault::kNone : refused(fault);
}

/// Finds the exact key or right that the fault table leaves open.
Reason Placement::reason_of(const QueuePair& qp, Opcode opcode, ResponderFault fault) const noexcept {
  const uint32_t properties = properties_of(opcode);
  switch (fault) {
    case ResponderFault::kUnsupported:
      return misaligned_ ? Reason::kMisaligned : Reason::kUnsupported;
    case ResponderFault::kNotGranted: {
      const bool reads = (properties & kOpReadsMemory) != 0;
      return reads && qp.attr.max_dest_rd_atomic == 0 ? Reason::kReadsNotGranted : Reason::kQpRightMissing;
    }
    case ResponderFault::kWrongQkey:
      return Reason::kWrongQkey;
    case ResponderFault::kWrongSrq:
      return Reason::kWrongSrq;
    case ResponderFault::kNoRecvWqe:
      return Reason::kNoReceive;
    case ResponderFault::kRemoteAccess:
      return remote_reason(refused_);
    case ResponderFault::kLocalAccess:
      return (properties & kOpNeedsRecvWqe) != 0 ? local_reason(refused_) : remote_reason(refused_);
    case ResponderFault::kTooLong:
      return (properties & kOpNeedsRecvWqe) != 0 ? Reason::kReceiveTooShort : Reason::kMessageTooLong;
    case ResponderFault::kPacketCrc:
      return Reason::kMessageCrc;
    case ResponderFault::kViolation:
      return Reason::kContradiction;
    case ResponderFault::kNone:
    case ResponderFault::kAwaitsKey:
    case ResponderFault::kCount:
      break;
  }
  return Reason::kNone;
}

/// An RC QP ends with its refusal. Other QPs go on, and report each kind of refusal once.
void Placement::report(QueuePair& qp, Failure failure, ResponderFault fault) noexcept {
  misaligned_ = false;
  if (is_management(qp.qpn)) return;
  const auto bit = static_cast<uint16_t>(1U << static_cast<uint32_t>(fault));
  const bool once = !qp.acknowledged() || !qp.connected() || !fault_rule(fault).ends_qp;
  if (once && (qp.rx.told & bit) != 0) return;
  qp.rx.told |= bit;
  engine_.report(qp, failure);
}

void Placement::refuse(QueuePair& qp, const RxPacket& packet, ResponderFault fault, uint64_t end) noexcept {
  count(qp, fault);
  Failure failure{.reason = reason_of(qp, packet.opcode, fault),
                  .work = work_of(packet.opcode),
                  .by_peer = true,
                  .bytes = end};
  const FaultRule& rule = fault_rule(fault);
  const bool has_receive = (packet.has_wqe || !qp.acknowledged()) && !qp.taken.empty();
  if (packet.fills_wqe && rule.ends_recv_wqe && has_receive) {
    const RecvWqe& receive = qp.rq->at(packet.wqe);
    failure.completes_wr = true;
    failure.wr_id = receive.wr_id;
    failure.status = qp.acknowledged() ? static_cast<uint8_t>(rule.recv_status) : uint8_t{0};
    failure.bytes += packet.offset;
    failure.expected = receive.bytes;
    if (fault == ResponderFault::kLocalAccess) {
      const Sge* segment = writer_.find_bad_receive(*qp.rq, packet.wqe);
      if (segment != nullptr) {
        failure.key = segment->lkey.value();
        failure.address = segment->addr;
        failure.bytes = segment->length;
        engine_.computer.of(failure.key).show_range(failure.key, failure.expected, failure.extent);
      }
    }
  } else if (!packet.fills_wqe) {
    failure.key = packet.rkey.value();
    failure.address = packet.va;
    engine_.computer.of(failure.key).show_range(failure.key, failure.expected, failure.extent);
  }
  report(qp, failure, fault);
}

void Placement::refuse_gone(QueuePair& qp, const RxPacket& asked, uint64_t bytes) noexcept {
  refused_ = AccessFault::kNotMapped;
  refuse(qp, asked, ResponderFault::kLocalAccess, bytes);
}

void Placement::refuse(QueuePair& qp, const CellView& cell, ResponderFault fault) noexcept {
  count(qp, fault);
  const bool datagram = !qp.connected();
  const bool too_short = fault == ResponderFault::kTooLong && !qp.rq->empty();
  report(qp,
         {.reason = reason_of(qp, cell.opcode, fault),
          .work = work_of(cell.opcode),
          .by_peer = true,
          .peer_lid = datagram ? cell.slid.value() : uint16_t{0},
          .peer_qpn = datagram ? cell.src_qpn.value() : 0,
          .bytes = cell.payload.size() + (too_short && qp.config.grh_space ? kGrhBytes : 0),
          .expected = too_short ? qp.rq->at(qp.rq->next()).bytes : 0},
         fault);
}

void Placement::end_qp(QueuePair& qp, const FaultRule& rule, bool has_wqe) noexcept {
  const bool completed = rule.ends_recv_wqe && has_wqe && !qp.taken.empty();
  if (completed) {
    engine_.complete(qp.config.recv_cq, {.wr_id = qp.rq->finish(qp.taken),
                                         .status = rule.recv_status,
                                         .opcode = WcOpcode::kRecv,
                                         .qpn = qp.qpn,
                                         .imm = code_of(qp.failed_by),
                                         .place = place_of_receive(qp)});
  }
  enter_error(engine_, qp, rule.event, WcStatus::kGeneral, completed);
}

void Placement::note_no_receive(QueuePair& qp, FailedWork work) noexcept {
  constexpr auto kBit = static_cast<uint16_t>(1U << static_cast<uint32_t>(ResponderFault::kNoRecvWqe));
  if ((qp.rx.told & kBit) != 0) return;
  if (!engine_.failures.note({Reason::kNoReceive, qp.qpn, qp.peer_lid, qp.peer_qpn}, engine_.now)) return;
  qp.rx.told |= kBit;
  engine_.report(qp, {.reason = Reason::kNoReceive, .work = work, .by_peer = true});
}

void Placement::count(QueuePair& qp, ResponderFault fault) noexcept {
  const FaultRule& rule = fault_rule(fault);
  qp.counters.add(rule.counter);
  if (rule.drop != AdapterCounter::kCount) engine_.count(rule.drop);
}

}  // namespace weft::adapter
