// How it works: cell i of a packet carries its bytes [i * segment, (i + 1) * segment). The writer can
// therefore make every cell again from the WQE alone, and keeps nothing for a repetition. The first cell of
// each RDMA packet carries the address at which the packet begins, so that the receiver can place packets in
// any order. The last cell of a message carries the immediate data.
#include "adapter/transport/cell_writer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "adapter/memory/guarded_copy.h"
#include "adapter/transport/datagram_ways.h"
#include "adapter/transport/pieces.h"
#include "base/crc32c.h"
#include "messages/ipv6_frame.h"
#include "messages/link_local.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

/// Appends fields between the header and the data, and hashes them from registers.
class PartWriter {
 public:
  PartWriter(std::byte* at, uint32_t crc) noexcept : at_(at), crc_(crc) {}
  template <class T>
  void put(T value) noexcept {
    const T raw = to_big(value);
    std::memcpy(at_, &raw, sizeof raw);
    if constexpr (sizeof raw == sizeof(uint64_t)) {
      crc_ = crc32c_words(crc_, raw);
    } else {
      crc_ = crc32c_half(crc_, raw);
    }
    at_ += sizeof raw;
  }
  [[nodiscard]] std::byte* at() const noexcept { return at_; }
  [[nodiscard]] uint32_t crc() const noexcept { return crc_; }

 private:
  std::byte* at_;
  uint32_t crc_;
};

[[nodiscard]] uint32_t network_bytes(const GlobalHeaderWire* global) noexcept {
  return kCellHeaderBytes + (global != nullptr ? kGlobalHeaderBytes : 0);
}

/// Writes the network part of a cell of `cell_bytes`: the MAC header and, for another subnet, the global
/// header (SAN-FRAME-03). Returns the CRC of the part.
[[nodiscard, gnu::always_inline]] inline uint32_t begin_cell(std::byte* cell, uint32_t cell_bytes,
                                                             const CellTemplate& fixed,
                                                             const GlobalHeaderWire* global,
                                                             CellVariable variable) noexcept {
  if (global == nullptr) [[likely]]
    return compose_cell_header(cell, fixed, variable);
  variable.flags |= kCellGlobal;
  const uint32_t crc = compose_cell_header(cell, fixed, variable);
  GlobalHeaderWire header = *global;
  header.payload_bytes.set(static_cast<uint16_t>(cell_bytes - kCellHeaderBytes - kGlobalHeaderBytes));
  return crc32c_copy(crc, cell + kCellHeaderBytes, &header, sizeof header);
}

/// A peer that is named by a link-local GID sees ours, as a port of InfiniBand has it in its table. A
/// destination in another subnet sees the GID with the subnet's prefix, because routers forward by it.
[[nodiscard, gnu::cold]] GlobalHeaderWire global_header_of(const AdapterPort& port,
                                                           const GlobalRoute& route) noexcept {
  const Guid guid = port.info().guid;
  const Gid source = is_link_local(route.dgid) ? link_local_gid(guid) : make_gid(port.info().subnet, guid);
  GlobalHeaderWire header = make_global_header(source, route.dgid);
  header.version_class_flow.set(6U << 28 | uint32_t{route.traffic_class} << 20 | route.flow_label);
  header.hop_limit = route.hop_limit;
  return header;
}

/// Puts the cell CRC behind the body and commits the cell to the carrier.
void finish_cell(Engine& engine, fabric::CellPort& carrier, VirtualLane vl, std::span<std::byte> cell,
                 uint32_t crc) noexcept {
  const auto bytes = static_cast<uint32_t>(cell.size());
  store_be(&cell[bytes - kCrcBytes], crc);
  engine.bytes_sent += bytes;
  carrier.commit(vl, bytes, crc);
}

/// Returns the CRC of header and body. The first transmission of a body, which goes in cell order, also adds
/// it to the CRC of the packet.
[[nodiscard]] uint32_t join_body(TxPacket& packet, uint32_t number, uint32_t header_crc, uint32_t body_crc,
                                 uint64_t body_bytes) noexcept {
  if (number == packet.hashed_cells) {
    packet.packet_crc = crc32c_combine(packet.packet_crc, body_crc, body_bytes);
    ++packet.hashed_cells;
  }
  return crc32c_combine(header_crc, body_crc, body_bytes);
}

}  // namespace

/// Null when the datagram has no global route.
const GlobalHeaderWire* CellWriter::datagram_header(const QueuePair& qp, const SendWqe& wqe,
                                                    GlobalHeaderWire& header) noexcept {
  if (!wqe.is_global) return nullptr;
  header = global_header_of(engine_.port_of(qp), wqe.route);
  return &header;
}

Outlet CellWriter::outlet_of(QueuePair& qp, const SendWqe& wqe) noexcept {
  if (qp.connected())
    return {qp.path.carrier, qp.path.fixed, qp.path.vl, qp.path.global_header(), qp.path.flags2};
  const AdapterPort& port = engine_.port_of(qp);
  const VirtualLane vl = lane_of(port, qp.qpn, wqe.dest.sl);
  fabric::CellPort* carrier = &port.way_to(wqe.dest.lid);
  if (engine_.datagram_ways != nullptr) [[unlikely]] {
    fabric::CellPort* const window = engine_.datagram_ways->carrier_of(qp, wqe);
    if (window != nullptr) carrier = window;
  }
  return {carrier, make_template(port, {wqe.dest.lid, wqe.dest.qpn, qp.qpn, wqe.dest.sl}), vl};
}

/// A datagram to a group also goes to the members on this port. A destination LID of this port is no group.
bool CellWriter::members_here(QueuePair& qp, const SendWqe& wqe) const noexcept {
  return wqe.to_group && !engine_.port_of(qp).has(wqe.dest.lid) && engine_.groups.any(qp.port, wqe.dest.lid);
}

void CellWriter::copy_to_members(QueuePair& qp, VirtualLane vl, std::span<const std::byte> cell,
                                 uint32_t crc) noexcept {
  fabric::CellPort& loopback = engine_.port_of(qp).loopback();
  const auto bytes = static_cast<uint32_t>(cell.size());
  std::byte* to = loopback.claim(vl, bytes);
  if (to == nullptr) return;  // impossible: there was room when the cell was begun
  std::memcpy(to, cell.data(), bytes - kCrcBytes);
  engine_.port_of(qp).counters.add(AdapterPortCounter::kCellsSent);
  finish_cell(engine_, loopback, vl, {to, bytes}, crc);
}

AccessFault CellWriter::check_list(PdId pd, std::span<const Sge> list, AccessKind kind) noexcept {
  for (const Sge& sge : list) {
    std::byte* at = nullptr;
    if (sge.length == 0) continue;
    const AccessFault fault = engine_.computer.of(sge.lkey.value()).checks.check_local(pd, sge, kind, at);
    if (fault == AccessFault::kNone) continue;
    engine_.faults.add(fault);
    return fault;
  }
  return AccessFault::kNone;
}

bool CellWriter::check_segments(QueuePair& qp, uint64_t wqe, AccessKind kind) noexcept {
  SendWqe& request = qp.sq.at(wqe);
  if ((request.flags & kSendInline) != 0) return true;
  const Sge& first = *qp.sq.sges(wqe);
  if (request.sge_count == 1 && first.length != 0) [[likely]] {
    const uint64_t revision = engine_.computer.revision();
    const bool reads = kind == AccessKind::kLocalRead;
    KnownRange* known = reads && qp.rx.order != nullptr ? &qp.rx.order->source : nullptr;
    request.revision = revision;
    if (known != nullptr) [[likely]] {
      request.single_at = known->find(first.lkey.value(), first.addr, first.length, revision);
      if (request.single_at != nullptr) [[likely]]
        return true;
    }
    const MemoryTable& list = engine_.computer.of(first.lkey.value());
    const AccessFault fault = list.checks.check_local(qp.config.pd, first, kind, request.single_at);
    if (fault != AccessFault::kNone) [[unlikely]] {
      engine_.faults.add(fault);
      return false;
    }
    if (known != nullptr) known->learn(list, first, request.single_at);
    return true;
  }
  return check_list(qp.config.pd, {qp.sq.sges(wqe), request.sge_count}, kind) == AccessFault::kNone;
}

const Sge* CellWriter::find_bad_segment(QueuePair& qp, uint64_t wqe, AccessKind kind) noexcept {
  const SendWqe& request = qp.sq.at(wqe);
  if (request.sge_count == 0 || (request.flags & kSendInline) != 0) return nullptr;
  return find_bad(qp.config.pd, {qp.sq.sges(wqe), request.sge_count}, kind);
}

const Sge* CellWriter::find_bad_receive(RecvQueue& queue, RecvSlot wqe) const noexcept {
  return find_bad(queue.pd(), {queue.sges(wqe), queue.at(wqe).sge_count}, AccessKind::kLocalWrite);
}

const Sge* CellWriter::find_bad(PdId pd, std::span<const Sge> list, AccessKind kind) const noexcept {
  for (const Sge& sge : list) {
    if (sge.length != 0 && fault_of(pd, &sge, kind) != AccessFault::kNone) return &sge;
  }
  return list.empty() ? nullptr : list.data();
}

AccessFault CellWriter::fault_of(PdId pd, const Sge* segment, AccessKind kind) const noexcept {
  std::byte* at = nullptr;
  return segment == nullptr
             ? AccessFault::kNone
             : engine_.computer.of(segment->lkey.value()).checks.check_local(pd, *segment, kind, at);
}

AccessFault CellWriter::gather(QueuePair& qp, const TxPacket& packet, uint64_t offset,
                               std::span<std::byte> to, uint32_t& crc) noexcept {
  SendWqe& wqe = qp.sq.at(packet.wqe);
  if ((wqe.flags & kSendInline) != 0) {
    crc = crc32c_copy(crc, to.data(), qp.sq.inline_data(packet.wqe) + offset, to.size());
    return AccessFault::kNone;
  }
  const Sge* sge = qp.sq.sges(packet.wqe);
  if (wqe.sge_count == 1 && !to.empty()) [[likely]] {
    if (wqe.revision != engine_.computer.revision()) {
      const AccessFault fault =
          engine_.computer.of(sge->lkey.value())
              .checks.check_local(qp.config.pd, *sge, AccessKind::kLocalRead, wqe.single_at);
      if (fault != AccessFault::kNone) return fault;
      wqe.revision = engine_.computer.revision();
    }
    const auto copy = [&](const std::byte* from, uint64_t bytes) {
      crc = crc_copy_guarded(crc, to.data(), from, bytes);
    };
    if (wqe.single_at != nullptr) [[likely]]
      return AccessChecks::touch(copy, wqe.single_at + offset, to.size());
  }
  std::byte* at = to.data();
  return for_each_piece(engine_.computer, qp.config.pd, {sge, wqe.sge_count}, {offset, to.size()},
                        AccessKind::kLocalRead, [&](const std::byte* piece, uint64_t bytes) {
                          crc = crc_copy_guarded(crc, at, piece, bytes);
                          at += bytes;
                        });
}

template <class Memory>
AccessFault CellWriter::scatter_by(const Memory& memory, PdId pd, std::span<const Sge> list, uint64_t offset,
                                   std::span<const std::byte> from) noexcept {
  const std::byte* data = from.data();
  const AccessFault fault = for_each_piece(memory, pd, list, {offset, from.size()}, AccessKind::kLocalWrite,
                                           [&](std::byte* piece, uint64_t bytes) {
                                             copy_guarded(piece, data, bytes);
                                             data += bytes;
                                           });
  if (fault != AccessFault::kNone) [[unlikely]]
    engine_.faults.add(fault);
  return fault;
}

AccessFault CellWriter::scatter(PdId pd, std::span<const Sge> list, uint64_t offset,
                                std::span<const std::byte> from) noexcept {
  return scatter_by(engine_.computer, pd, list, offset, from);
}

AccessFault CellWriter::place_response(const QueuePair& qp, std::span<const Sge> list, uint64_t offset,
                                       std::span<const std::byte> from) noexcept {
  return scatter_by(*qp.memory, qp.config.pd, list, offset, from);
}

AccessFault CellWriter::place_received(RecvQueue& queue, RecvSlot wqe, uint64_t offset,
                                       std::span<const std::byte> from) noexcept {
  RecvWqe& request = queue.at(wqe);
  const std::span<const Sge> list{queue.sges(wqe), request.sge_count};
  if (!request.checked) {
    const AccessFault fault = check_list(queue.pd(), list, AccessKind::kLocalWrite);
    if (fault != AccessFault::kNone) return fault;
    request.checked = true;
  }
  return scatter(queue.pd(), list, offset, from);
}

namespace {

/// The flags of a request cell that do not tell what lies between its header and its data.
[[nodiscard, gnu::always_inline]] inline int flags_of(const TxPacket& packet, uint32_t number) noexcept {
  const bool last = number + 1U == packet.cells;
  const bool closing = (packet.pending & (packet.pending - 1)) == 0;  // the last pending cell
  return (number == 0 ? kCellFirst : 0) | (last ? kCellLast : 0) |
         (closing && packet.ack_wanted ? kCellAckWanted : 0) |
         (last && packet.invalidates ? kCellInvalidateKey : 0);
}

}  // namespace

CellSent CellWriter::send_request_cell(QueuePair& qp, TxPacket& packet, Psn psn, uint32_t number) noexcept {
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(packet.opcode));
  if (is_plain(qp, properties) && !packet.is_read) [[likely]]
    return send_plain_cell(qp, packet, psn, number);
  return packet.is_read ? send_read_request(qp, packet, psn) : send_any_cell(qp, packet, psn, number);
}

/// True when nothing but address and immediate data lies between header and data of the cells, and they leave
/// by the QP's own path.
[[gnu::always_inline]] inline bool CellWriter::is_plain(const QueuePair& qp, uint32_t properties) noexcept {
  return qp.connected() && !qp.path.is_global && !qp.config.packet_crc &&
         (properties & (kOpDatagramHeader | kOpXrcHeader)) == 0;
}

/// Nearly all cells. The bytes on the wire are those of send_any_cell().
[[gnu::always_inline]] inline CellSent CellWriter::send_plain_cell(QueuePair& qp, TxPacket& packet, Psn psn,
                                                                   uint32_t number) noexcept {
  const QpPath& path = qp.path;
  const SendWqe& wqe = qp.sq.at(packet.wqe);
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(packet.opcode));
  const uint32_t begin = number * path.segment_bytes;
  const uint32_t bytes = std::min(path.segment_bytes, packet.bytes - begin);
  const bool va = number == 0 && (properties & kOpVaInFirstCell) != 0;
  const bool idata = packet.has_idata && number + 1U == packet.cells;
  const uint32_t parts_bytes = (va ? kVaBytes : 0) + (idata ? kIdataBytes : 0);
  const uint32_t size = kCellHeaderBytes + parts_bytes + bytes + kCrcBytes;
  std::byte* cell = path.carrier->claim(path.vl, size);
  if (cell == nullptr) return CellSent::kNoCredit;
  const int flags = flags_of(packet, number) | (va ? kCellVa : 0) | (idata ? kCellIdata : 0);
  const CellVariable variable{.opcode = packet.opcode,
                              .flags = static_cast<uint8_t>(flags),
                              .flags2 = static_cast<uint8_t>(packet.flags2 | path.flags2),
                              .psn = psn,
                              .cell_number = static_cast<uint16_t>(number),
                              .payload_bytes = static_cast<uint16_t>(bytes)};
  PartWriter parts(cell + kCellHeaderBytes, compose_cell_header(cell, path.fixed, variable));
  if (va) {
    parts.put(wqe.remote_addr + packet.offset);
    parts.put(wqe.rkey.value());
  }
  if (idata) parts.put(wqe.rule->invalidates ? wqe.rkey.value() : wqe.imm);
  uint32_t crc = parts.crc();
  const uint64_t offset = uint64_t{packet.offset} + begin;
  // As in gather(): one segment in one piece, whose check still holds.
  const bool one_piece = (wqe.flags & kSendInline) == 0 && wqe.sge_count == 1 && wqe.single_at != nullptr &&
                         wqe.revision == engine_.computer.revision() && bytes != 0;
  const auto copy = [&](const std::byte* from, uint64_t length) {
    crc = crc_copy_guarded(crc, parts.at(), from, length);
  };
  const AccessFault fault = one_piece ? AccessChecks::touch(copy, wqe.single_at + offset, bytes)
                                      : gather(qp, packet, offset, {parts.at(), bytes}, crc);
  if (fault != AccessFault::kNone) [[unlikely]] {
    engine_.faults.add(fault);
    return CellSent::kLocalFault;
  }
  finish_cell(engine_, *path.carrier, path.vl, {cell, size}, crc);
  return CellSent::kYes;
}

CellSent CellWriter::send_any_cell(QueuePair& qp, TxPacket& packet, Psn psn, uint32_t number) noexcept {
  const SendWqe& wqe = qp.sq.at(packet.wqe);
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(packet.opcode));
  const uint32_t begin = number * qp.path.segment_bytes;
  const uint32_t bytes = std::min(qp.path.segment_bytes, packet.bytes - begin);
  const bool last = number + 1U == packet.cells;
  const bool va = number == 0 && (properties & kOpVaInFirstCell) != 0;
  const bool datagram = (properties & kOpDatagramHeader) != 0;
  const bool xrc = (properties & kOpXrcHeader) != 0;
  const bool idata = last && packet.has_idata;
  const bool packet_crc = last && qp.config.packet_crc && (properties & kOpMultiCell) != 0;
  const bool connected = qp.connected();
  GlobalHeaderWire route;
  const GlobalHeaderWire* global = connected ? qp.path.global_header() : datagram_header(qp, wqe, route);
  const uint32_t head = network_bytes(global);
  const uint32_t size = head + (va ? kVaBytes : 0) + (datagram ? kDatagramHeaderBytes : 0) +
                        (xrc ? kXrcHeaderBytes : 0) + (idata ? kIdataBytes : 0) + bytes +
                        (packet_crc ? kCrcBytes : 0) + kCrcBytes;
  const Outlet other = connected ? Outlet{} : outlet_of(qp, wqe);
  fabric::CellPort& carrier = connected ? *qp.path.carrier : *other.carrier;
  const VirtualLane vl = connected ? qp.path.vl : other.vl;
  std::byte* cell = carrier.claim(vl, size);
  if (cell == nullptr) return CellSent::kNoCredit;
  const bool doubled = members_here(qp, wqe);
  if (doubled && engine_.port_of(qp).loopback().claim(vl, size) == nullptr) return CellSent::kNoCredit;

  const CellVariable variable{
      .opcode = packet.opcode,
      .flags = static_cast<uint8_t>(flags_of(packet, number) | (va ? kCellVa : 0) | (idata ? kCellIdata : 0) |
                                    (packet_crc ? kCellPacketCrc : 0)),
      .flags2 = static_cast<uint8_t>(packet.flags2 | qp.path.flags2),
      .psn = psn,
      .cell_number = static_cast<uint16_t>(number),
      .payload_bytes = static_cast<uint16_t>(bytes)};
  const CellTemplate& fixed = connected ? qp.path.fixed : other.fixed;
  const uint32_t header_crc = begin_cell(cell, size, fixed, global, variable);
  // With a packet CRC, hash the body separately and combine the sums; else hash on from the header.
  PartWriter parts(cell + head, qp.config.packet_crc ? 0 : header_crc);
  if (va) {
    parts.put(wqe.remote_addr + packet.offset);
    parts.put(wqe.rkey.value());
  }
  if (datagram) {
    parts.put(wqe.dest.qkey);
    parts.put(uint32_t{wire_pkey(qp.pkey)} << 16);
  }
  if (xrc) parts.put(wqe.srq);
  if (idata) parts.put(wqe.rule->invalidates ? wqe.rkey.value() : wqe.imm);
  uint32_t crc = parts.crc();
  const AccessFault fault = gather(qp, packet, uint64_t{packet.offset} + begin, {parts.at(), bytes}, crc);
  if (fault != AccessFault::kNone) [[unlikely]] {
    engine_.faults.add(fault);
    return CellSent::kLocalFault;
  }
  if (qp.config.packet_crc) {
    crc = join_body(packet, number, header_crc, crc, static_cast<uint64_t>(parts.at() - cell) - head + bytes);
    if (packet_crc) {
      store_be(parts.at() + bytes, packet.packet_crc);
      crc = crc32c_extend(crc, parts.at() + bytes, kCrcBytes);
    }
  }
  if (doubled) copy_to_members(qp, vl, {cell, size}, crc);
  finish_cell(engine_, carrier, vl, {cell, size}, crc);
  return CellSent::kYes;
}

/// Sends one cell of a connected QP whose payload is a header. For an XRC QP `body` begins with the XRC
/// header.
CellSent CellWriter::send_one_cell(QueuePair& qp, const CellVariable& variable,
                                   std::span<const std::byte> body) noexcept {
  const GlobalHeaderWire* global = qp.path.global_header();
  const uint32_t head = network_bytes(global);
  const auto size = static_cast<uint32_t>(head + body.size() + kCrcBytes);
  std::byte* cell = qp.path.carrier->claim(qp.path.vl, size);
  if (cell == nullptr) return CellSent::kNoCredit;
  const uint32_t crc = begin_cell(cell, size, qp.path.fixed, global, variable);
  finish_cell(engine_, *qp.path.carrier, qp.path.vl, {cell, size},
              crc32c_copy(crc, cell + head, body.data(), body.size()));
  return CellSent::kYes;
}

namespace {

[[nodiscard]] CellVariable request_cell(const QueuePair& qp, const TxPacket& packet, Psn psn,
                                        size_t payload_bytes) noexcept {
  return {.opcode = packet.opcode,
          .flags = static_cast<uint8_t>(kCellFirst | kCellLast | (packet.ack_wanted ? kCellAckWanted : 0)),
          .flags2 = static_cast<uint8_t>(packet.flags2 | qp.path.flags2),
          .psn = psn,
          .payload_bytes = static_cast<uint16_t>(payload_bytes)};
}

}  // namespace

/// Sends a request that is a header without data.
template <class Request>
CellSent CellWriter::send_header(QueuePair& qp, const TxPacket& packet, Psn psn,
                                 const Request& request) noexcept {
  struct Body {
    Be32 srq;
    Request request;
  } body;
  static_assert(sizeof body == kXrcHeaderBytes + sizeof request);
  body.srq.set(qp.sq.at(packet.wqe).srq);
  body.request = request;
  const bool xrc = (opcode_properties(static_cast<uint8_t>(packet.opcode)) & kOpXrcHeader) != 0;
  const auto bytes = std::as_bytes(std::span(&body, 1));
  return send_one_cell(qp, request_cell(qp, packet, psn, sizeof request),
                       xrc ? bytes : bytes.subspan(kXrcHeaderBytes));
}

CellSent CellWriter::send_read_request(QueuePair& qp, TxPacket& packet, Psn psn) noexcept {
  if (is_atomic_request(packet.opcode)) return send_atomic_request(qp, packet, psn);
  const SendWqe& wqe = qp.sq.at(packet.wqe);
  // The sink address is the offset in the requester's scatter list, so that the peer learns no process
  // address.
  ReadRequestWire request;
  request.sink_key.set(wqe.sge_count != 0 ? qp.sq.sges(packet.wqe)->lkey.value() : 0);
  request.sink_address.set(packet.offset);
  request.length.set(packet.bytes);
  request.source_key.set(wqe.rkey.value());
  request.source_address.set(wqe.remote_addr + packet.offset);
  request.message_sequence.set(packet.wqe);
  return send_header(qp, packet, psn, request);
}

CellSent CellWriter::send_atomic_request(QueuePair& qp, TxPacket& packet, Psn psn) noexcept {
  const SendWqe& wqe = qp.sq.at(packet.wqe);
  const bool swaps = wqe.rule->opcode == SendOpcode::kCompareSwap;
  FetchRequestWire request{};
  request.address.set(wqe.remote_addr);
  request.key.set(wqe.rkey.value());
  request.operation = static_cast<uint8_t>(swaps ? FetchOp::kCompareSwap : FetchOp::kFetchAdd);
  request.operand_bytes = kFetchOperandBytes;
  request.compare.set(swaps ? wqe.atomic.compare : 0);
  request.operand.set(wqe.atomic.operand);
  return send_header(qp, packet, psn, request);
}

CellSent CellWriter::send_atomic_response(QueuePair& qp, const ReadJob& job) noexcept {
  const uint64_t value = to_big(job.old_value);
  return send_one_cell(qp,
                       {.opcode = Opcode::kFetchOpResponse,
                        .flags = kCellFirst | kCellLast,
                        .flags2 = qp.path.flags2,
                        .psn = job.psn,
                        .payload_bytes = sizeof value},
                       std::as_bytes(std::span(&value, 1)));
}

CellSent CellWriter::send_ipv6_frame(QueuePair& qp, const TxPacket& packet, Psn psn) noexcept {
  const uint32_t bytes = packet.bytes - kIpv6HeaderBytes;
  std::array<std::byte, kIpv6HeaderBytes> header{};
  uint32_t crc = 0;
  AccessFault fault = gather(qp, packet, 0, header, crc);
  GlobalHeaderWire global;
  if (fault == AccessFault::kNone && !global_from_ipv6(header, bytes, global)) return CellSent::kBadFrame;
  const Outlet outlet = outlet_of(qp, qp.sq.at(packet.wqe));
  const uint32_t size = kCellHeaderBytes + kGlobalHeaderBytes + bytes + kCrcBytes;
  std::byte* cell = nullptr;
  if (fault == AccessFault::kNone) {
    cell = outlet.carrier->claim(outlet.vl, size);
    if (cell == nullptr) return CellSent::kNoCredit;
    crc = begin_cell(cell, size, outlet.fixed, &global,
                     {.opcode = Opcode::kRaw,
                      .flags = kCellFirst | kCellLast,
                      .flags2 = packet.flags2,
                      .psn = psn,
                      .payload_bytes = static_cast<uint16_t>(bytes)});
    fault = gather(qp, packet, kIpv6HeaderBytes, {cell + kCellHeaderBytes + kGlobalHeaderBytes, bytes}, crc);
  }
  if (fault != AccessFault::kNone) {
    engine_.faults.add(fault);
    return CellSent::kLocalFault;
  }
  finish_cell(engine_, *outlet.carrier, outlet.vl, {cell, size}, crc);
  return CellSent::kYes;
}

CellSent CellWriter::send_read_response(QueuePair& qp, const ReadJob& job) noexcept {
  const uint32_t begin = job.next * qp.path.segment_bytes;
  const uint32_t bytes = std::min(qp.path.segment_bytes, job.bytes - begin);
  const bool first = job.next == 0;
  const bool last = job.next + 1U == job.cells;
  const GlobalHeaderWire* global = qp.path.global_header();
  const uint32_t head = network_bytes(global);
  const uint32_t size = head + (first ? kVaBytes : 0) + bytes + kCrcBytes;
  std::byte* cell = qp.path.carrier->claim(qp.path.vl, size);
  if (cell == nullptr) return CellSent::kNoCredit;
  const uint32_t header_crc =
      begin_cell(cell, size, qp.path.fixed, global,
                 {.opcode = Opcode::kRdmaReadResponse,
                  .flags = static_cast<uint8_t>((first ? kCellFirst | kCellVa : 0) | (last ? kCellLast : 0)),
                  .flags2 = qp.path.flags2,
                  .psn = job.psn,
                  .cell_number = job.next,
                  .payload_bytes = static_cast<uint16_t>(bytes)});
  PartWriter parts(cell + head, header_crc);
  if (first) {
    parts.put(job.sink_va);
    parts.put(job.sink_key);
  }
  uint32_t crc = parts.crc();
  std::byte* to = parts.at();
  const AccessFault fault = engine_.memory.checks.visit_granted(
      job.grant, begin, bytes, AccessKind::kRemoteRead, [&](const std::byte* piece, uint64_t length) {
        crc = crc_copy_guarded(crc, to, piece, length);
        to += length;
      });
  if (fault != AccessFault::kNone) [[unlikely]] {
    engine_.faults.add(fault);
    return CellSent::kLocalFault;
  }
  finish_cell(engine_, *qp.path.carrier, qp.path.vl, {cell, size}, crc);
  return CellSent::kYes;
}

[[gnu::always_inline]] inline CellSent CellWriter::send_acknowledgement(
    const Outlet& outlet, Opcode opcode, Psn psn, const AckBody& body,
    std::span<const std::byte> blocks) noexcept {
  const uint32_t head = network_bytes(outlet.global);
  const auto size = static_cast<uint32_t>(head + kAckBodyBytes + blocks.size() + kCrcBytes);
  std::byte* cell = outlet.carrier->claim(outlet.vl, size);
  if (cell == nullptr) return CellSent::kNoCredit;
  const uint32_t header_crc = begin_cell(cell, size, outlet.fixed, outlet.global,
                                         {.opcode = opcode,
                                          .flags = kCellFirst | kCellLast,
                                          .flags2 = outlet.flags2,
                                          .psn = psn,
                                          .payload_bytes = static_cast<uint16_t>(blocks.size())});
  PartWriter parts(cell + head, header_crc);
  parts.put(body.psn.value());
  parts.put(uint32_t{body.cell_number} << 16 | uint32_t{static_cast<uint8_t>(body.code)} << 8);
  parts.put(body.messages_completed);
  finish_cell(engine_, *outlet.carrier, outlet.vl, {cell, size},
              crc32c_copy(parts.crc(), parts.at(), blocks.data(), blocks.size()));
  return CellSent::kYes;
}

CellSent CellWriter::send_ack(const Outlet& outlet, const AckBody& body,
                              std::span<const std::byte> blocks) noexcept {
  const Opcode opcode = body.code == AckCode::kAck ? Opcode::kAck : Opcode::kNak;
  return send_acknowledgement(outlet, opcode, body.psn, body, blocks);
}

CellSent CellWriter::send_ways(const Outlet& outlet, Psn psn, const AckBody& body,
                               const WaysWire& ways) noexcept {
  return send_acknowledgement(outlet, Opcode::kWays, psn, body, std::as_bytes(std::span(&ways, 1)));
}

}  // namespace weft::adapter
