#include "adapter/transport/placement.h"

#include <atomic>
#include <cstring>

#include "adapter/memory/guarded_copy.h"

namespace weft::adapter {
namespace {

[[nodiscard]] uint32_t properties_of(Opcode opcode) noexcept {
  return opcode_properties(static_cast<uint8_t>(opcode));
}

/// The bit of a service in the table of operations.
[[nodiscard]] constexpr uint32_t wire_service(QpType type) noexcept {
  switch (type) {
    case QpType::kRc:
      return kOpOnRc;
    case QpType::kUc:
      return kOpOnUc;
    case QpType::kRd:
      return kOpOnRd;
    case QpType::kUd:
      return kOpOnUd;
    case QpType::kRaw:
      return kOpOnRaw;
    case QpType::kXrcRecv:
      return kOpOnXrc;
    case QpType::kXrcSend:  // receives no requests
      break;
  }
  return 0;
}

/// False when the memory has gone.
[[nodiscard]] bool copy_in(std::byte* to, std::span<const std::byte> data) noexcept {
  const auto copy = [&](std::byte* at, uint64_t bytes) { copy_guarded(at, data.data(), bytes); };
  return MemoryTable::touch(copy, to, data.size()) == AccessFault::kNone;
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
  packet.revision = 0;  // what was granted for another address is no grant for this one
}

ResponderFault Placement::check_operation(const QueuePair& qp, const CellView& cell) const noexcept {
  const uint32_t properties = properties_of(cell.opcode);
  if ((properties & kOpRequest) == 0 || (properties & wire_service(qp.config.type)) == 0) {
    return ResponderFault::kUnsupported;
  }
  const bool datagram =
      (properties & (kOpOnRc | kOpOnUc | kOpOnXrc)) == 0;  // one packet is the whole message
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

/// The peer is wrong, or, when there is no memory behind what the entry allows, this node is (C-30).
ResponderFault Placement::refused(AccessFault fault) noexcept {
  engine_.faults.add(fault);
  return fault == AccessFault::kNotMapped ? ResponderFault::kLocalAccess : ResponderFault::kRemoteAccess;
}

ResponderFault Placement::look_up(const QueuePair& qp, RxPacket& packet, uint64_t end) noexcept {
  const PdId* pd = domain_of(qp, packet.srq);
  if (pd == nullptr) return ResponderFault::kWrongSrq;
  if (end == 0) {  // a message without bytes touches no memory, so its key means nothing, as in InfiniBand
    packet.grant = {};
    return ResponderFault::kNone;
  }
  const uint32_t binding = packet.grant.binding;
  AccessFault fault = engine_.memory.check_remote({*pd, qp.qpn}, packet.rkey, packet.va, end,
                                                  AccessKind::kRemoteWrite, packet.grant);
  // The key was bound anew since the packet's first bytes were placed: they lie where it pointed before.
  const bool moved = packet.revision != 0 && packet.grant.binding != binding;
  if (fault == AccessFault::kNone && moved) fault = AccessFault::kNotValid;
  if (fault != AccessFault::kNone) return refused(fault);
  packet.revision = engine_.memory.revision();
  return ResponderFault::kNone;
}

ResponderFault Placement::copy(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                               std::span<const std::byte> data) noexcept {
  if (packet.fills_wqe) {
    const AccessFault fault = segmenter_.place_received(*qp.rq, packet.wqe, packet.offset + begin, data);
    return fault == AccessFault::kNone ? ResponderFault::kNone : ResponderFault::kLocalAccess;
  }
  const std::byte* from = data.data();
  const AccessFault fault = engine_.memory.visit_granted(
      packet.grant, begin, data.size(), AccessKind::kRemoteWrite, [&](std::byte* at, uint64_t bytes) {
        copy_guarded(at, from, bytes);
        from += bytes;
      });
  return fault == AccessFault::kNone ? ResponderFault::kNone : refused(fault);
}

ResponderFault Placement::check_place(QueuePair& qp, RxPacket& packet, uint64_t end) noexcept {
  const ResponderFault fault = check_length(qp, packet, end);
  return fault == ResponderFault::kNone && !packet.fills_wqe ? check_rkey(qp, packet, end) : fault;
}

ResponderFault Placement::place(QueuePair& qp, RxPacket& packet, uint64_t begin,
                                std::span<const std::byte> data) noexcept {
  const ResponderFault fault = check_place(qp, packet, begin + data.size());
  return fault == ResponderFault::kNone ? copy(qp, packet, begin, data) : fault;
}

bool Placement::write_at_once(QueuePair& qp, const CellView& cell) noexcept {
  const std::span<const std::byte> data = cell.payload;
  if (check_rights(qp, cell.opcode) != ResponderFault::kNone) return false;
  if (data.size() > engine_.config.limits.message_bytes_max) return false;
  if (data.empty()) return true;  // touches no memory, as in look_up()
  KnownRange& known = qp.rx.order->target;
  std::byte* at = known.find(cell.rkey.value(), cell.va, data.size(), engine_.memory.revision());
  if (at != nullptr) [[likely]]
    return copy_in(at, data);
  RemoteGrant grant;
  const AccessFault fault = engine_.memory.check_remote({qp.config.pd, qp.qpn}, cell.rkey, cell.va,
                                                        data.size(), AccessKind::kRemoteWrite, grant);
  if (fault != AccessFault::kNone || grant.at == nullptr || !copy_in(grant.at, data)) return false;
  engine_.memory.finish_remote(grant);
  if (!grant.one_shot) known.learn(grant, cell.rkey.value(), cell.va, engine_.memory.revision());
  return true;
}

bool Placement::write_on(const RxPacket& packet, uint64_t begin, std::span<const std::byte> data) noexcept {
  const bool stands = !packet.fills_wqe && packet.revision == engine_.memory.revision();
  const bool within = begin + data.size() <= packet.grant.room && packet.grant.at != nullptr;
  return stands && within && copy_in(packet.grant.at + begin, data);
}

bool Placement::receive_at_once(RecvQueue& queue, std::span<const std::byte> data) noexcept {
  const RecvSlot slot = queue.next();
  const RecvWqe& wqe = queue.at(slot);
  if (wqe.sge_count != 1 || data.empty() || data.size() > wqe.bytes) return false;
  std::byte* at = nullptr;
  const AccessFault fault =
      engine_.memory.check_local(queue.pd(), *queue.sges(slot), AccessKind::kLocalWrite, at);
  return fault == AccessFault::kNone && at != nullptr && copy_in(at, data);
}

ResponderFault Placement::check_turn(QueuePair& qp, RxPacket& packet, uint32_t bytes) noexcept {
  const ReceiveSide& rx = qp.rx;
  const bool continues = (packet.flags2 & kCell2Continues) != 0;
  const bool same = packet.opcode == rx.message_opcode && packet.srq == rx.message_srq;
  if (continues != rx.completing || (continues && !same)) return ResponderFault::kViolation;
  if (domain_of(qp, packet.srq) == nullptr) return ResponderFault::kWrongSrq;
  const uint64_t before = continues ? rx.message_bytes : 0;
  if (before + bytes > engine_.config.limits.message_bytes_max) return ResponderFault::kTooLong;
  if (packet.fills_wqe) return ResponderFault::kNone;
  // One operation is one range under one key, however many packets it takes.
  if (continues && (packet.rkey != rx.message_key || packet.va != rx.message_va + before)) {
    return ResponderFault::kViolation;
  }
  const ResponderFault fault = check_rights(qp, packet.opcode);
  if (fault != ResponderFault::kNone || (properties_of(packet.opcode) & kOpReadsMemory) != 0) return fault;
  return check_rkey(qp, packet, bytes);
}

void Placement::pass_turn(QueuePair& qp, const RxPacket& packet, uint32_t bytes) noexcept {
  ReceiveSide& rx = qp.rx;
  if (!rx.completing) {
    rx.message_bytes = 0;
    rx.message_va = packet.va;
    rx.message_key = packet.rkey;
    rx.message_opcode = packet.opcode;
    rx.message_srq = packet.srq;
  }
  rx.message_bytes += bytes;
  rx.completing = packet.more();
}

ResponderFault Placement::finish(QueuePair& qp, const RxPacket& last) noexcept {
  if (last.invalidates && last.has_imm) {
    if (!qp.acknowledged()) return ResponderFault::kUnsupported;
    const PdId* pd = domain_of(qp, last.srq);
    if (pd == nullptr) return ResponderFault::kWrongSrq;
    const AccessFault fault = engine_.memory.invalidate_for_peer({*pd, qp.qpn}, Rkey(last.imm));
    if (fault != AccessFault::kNone) return refused(fault);
  }
  if (!last.fills_wqe) engine_.memory.finish_remote(last.grant);
  return ResponderFault::kNone;
}

ResponderFault Placement::check_read(const QueuePair& qp, ReadJob& job) noexcept {
  const ResponderFault fault = check_rights(qp, Opcode::kRdmaReadRequest);
  const bool begun = job.revision != 0;
  if (job.bytes == 0) return fault;  // touches no memory, as in look_up()
  if (fault != ResponderFault::kNone || job.revision == engine_.memory.revision()) return fault;
  const PdId* pd = domain_of(qp, job.srq);
  if (pd == nullptr) return ResponderFault::kWrongSrq;
  AccessFault why = AccessFault::kNone;
  if (begun && job.grant.one_shot) {  // the key has served: this read is what it has served
    if (!engine_.memory.still_bound(job.grant)) why = AccessFault::kNotValid;
  } else {
    RemoteGrant grant;
    why = engine_.memory.check_remote({*pd, qp.qpn}, job.source_key, job.source_va, job.bytes,
                                      AccessKind::kRemoteRead, grant);
    const bool moved = begun && grant.binding != job.grant.binding;
    if (why == AccessFault::kNone && moved) why = AccessFault::kNotValid;
    if (why == AccessFault::kNone) job.grant = grant;
  }
  if (why != AccessFault::kNone) return refused(why);
  job.revision = engine_.memory.revision();
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
  AccessFault fault =
      engine_.memory.check_remote({*pd, qp.qpn}, Rkey(request.key.get()), va, kFetchOperandBytes,
                                  AccessKind::kRemoteAtomic, packet.grant);
  if (fault == AccessFault::kNone) {
    fault = engine_.memory.visit_granted(packet.grant, 0, kFetchOperandBytes, AccessKind::kRemoteAtomic,
                                         [&](std::byte* piece, uint64_t bytes) {
                                           at = piece;
                                           room = bytes;
                                         });
  }
  if (fault != AccessFault::kNone) return refused(fault);
  // What the peer calls an address may be aligned where the memory is not.
  const bool aligned =
      va % kFetchOperandBytes == 0 && reinterpret_cast<uintptr_t>(at) % kFetchOperandBytes == 0;
  if (!aligned || room != kFetchOperandBytes) return ResponderFault::kUnsupported;
  const auto operation = static_cast<FetchOp>(request.operation);
  if (operation != FetchOp::kCompareSwap && operation != FetchOp::kFetchAdd)
    return ResponderFault::kUnsupported;
  fault = MemoryTable::touch(
      [&](std::byte* word, uint64_t /*bytes*/) {
        old_value = operation == FetchOp::kFetchAdd
                        ? fetch_add_guarded(word, request.operand.get())
                        : compare_swap_guarded(word, request.compare.get(), request.operand.get());
      },
      at, room);
  return fault == AccessFault::kNone ? ResponderFault::kNone : refused(fault);
}

void Placement::count(QueuePair& qp, ResponderFault fault) noexcept {
  const FaultRule& rule = fault_rule(fault);
  qp.counters.add(rule.counter);
  if (rule.drop != AdapterCounter::kCount) engine_.count(rule.drop);
}

}  // namespace weft::adapter
