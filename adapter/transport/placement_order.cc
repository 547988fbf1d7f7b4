// The part of Placement for cells out of order. How it works: data is placed when it arrives, so a repeated
// cell can come after cells of later packets. Writes and Sends of one QP must leave memory as if executed in
// order. Such a late cell therefore leaves out the bytes that later packets have written. These bytes are
// known, because each packet in the window has its grant or receive WQE and the mask of its placed cells.
// Most late cells lie outside the hull of all data placed ahead of its turn and need no comparison. The
// packet CRC is computed from the received bytes, cell by cell, in any order.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "adapter/memory/guarded_copy.h"
#include "adapter/transport/pieces.h"
#include "adapter/transport/placement.h"
#include "adapter/transport/unwritten.h"
#include "base/crc32c.h"

namespace weft::adapter {
namespace {

/// Calls `action(begin, bytes)` for each placed stretch of the `wanted` cells of a packet.
template <class Action>
void for_each_placed(const RxPacket& packet, uint64_t wanted, uint32_t segment_bytes,
                     Action action) noexcept {
  for (uint64_t left = packet.placed & wanted; left != 0;) {
    const auto first = static_cast<uint32_t>(std::countr_zero(left));
    const auto cells = static_cast<uint32_t>(std::countr_one(left >> first));
    const bool to_end = first + cells == packet.cells;
    action(uint64_t{first} * segment_bytes, to_end ? uint64_t{cells - 1} * segment_bytes + packet.last_bytes
                                                   : uint64_t{cells} * segment_bytes);
    left &= ~(cell_mask(cells) << first);
  }
}

/// The cells that may lie in [first, end), of a packet whose memory begins at `at`.
[[nodiscard]] uint64_t cells_within(uintptr_t at, uint32_t segment_bytes, uintptr_t first,
                                    uintptr_t end) noexcept {
  if (end <= at) return 0;
  const uint64_t before = first > at ? (first - at) / segment_bytes : 0;
  if (before >= kCellsPerPacketMax) return 0;
  const uint64_t until = std::min<uint64_t>((end - 1 - at) / segment_bytes + 1, kCellsPerPacketMax);
  return cell_mask(static_cast<uint32_t>(until)) & ~cell_mask(static_cast<uint32_t>(before));
}

/// Where the body of a cell begins in the input of the packet CRC, without immediate data before it.
[[nodiscard]] uint64_t body_begin(const QueuePair& qp, const RxPacket& packet, uint32_t number) noexcept {
  const uint64_t head = number != 0 && !packet.fills_wqe ? kVaBytes : 0;
  return head + uint64_t{number} * qp.path.segment_bytes;
}

/// Upper limit of the bodies of a packet. The CRC treats every packet as this long, because only the last
/// cell tells the true length.
[[nodiscard]] uint64_t longest_bodies(const QueuePair& qp) noexcept {
  return kVaBytes + kIdataBytes + uint64_t{kCellsPerPacketMax} * qp.path.segment_bytes;
}

[[nodiscard]] uint32_t hash_parts(uint32_t crc, const RxPacket& packet, uint32_t number) noexcept {
  std::array<std::byte, kVaBytes> parts{};
  if (number == 0 && !packet.fills_wqe) {
    store_be(parts.data(), packet.va);
    store_be(parts.data() + 8, packet.rkey.value());
    crc = crc32c_extend(crc, parts.data(), kVaBytes);
  }
  if ((packet.idata_cells >> number & 1) == 0) return crc;
  store_be(parts.data(), packet.imm);
  return crc32c_extend(crc, parts.data(), kIdataBytes);
}

}  // namespace

/// Calls `action(address, bytes)` for the pieces of memory of a packet, and does not touch them itself.
template <class Action>
AccessFault Placement::visit_place(QueuePair& qp, const RxPacket& packet, uint64_t begin, uint64_t bytes,
                                   Action action) noexcept {
  if (packet.fills_wqe) {
    RecvQueue& queue = *qp.rq;
    return for_each_piece(engine_.computer, queue.pd(),
                          {queue.sges(packet.wqe), queue.at(packet.wqe).sge_count},
                          {packet.offset + begin, bytes}, AccessKind::kLocalWrite, action);
  }
  // After a binding has ended, the pages of its memory are unknown. A packet under such a binding will be
  // refused.
  const bool stands = packet.grant.at != nullptr || packet.revision == engine_.computer.revision() ||
                      engine_.memory.checks.still_bound(packet.grant);
  if (!stands) return AccessFault::kNotValid;
  return engine_.memory.checks.visit_granted(packet.grant, begin, bytes, AccessKind::kRemoteWrite, action);
}

/// These bytes of a packet may overlap data that was placed ahead of its turn.
bool Placement::meets_what_is_ahead(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                                    uint64_t bytes) noexcept {
  const ReceiveSide& rx = qp.rx;
  bool meets = false;
  (void)visit_place(qp, packet, begin, bytes, [&](const std::byte* at, uint64_t length) {
    const auto from = reinterpret_cast<uintptr_t>(at);
    meets = meets || (from < rx.order->ahead_end && rx.order->ahead_begin < from + length);
  });
  return meets;
}

ResponderFault Placement::copy_among_others(QueuePair& qp, Psn psn, const RxPacket& packet, uint64_t begin,
                                            std::span<const std::byte> data) noexcept {
  ReceiveSide& rx = qp.rx;
  const auto distance = static_cast<uint64_t>(psn.distance_from(rx.expected));
  const bool late = distance + 1 < rx.highest && meets_what_is_ahead(qp, packet, begin, data.size());
  if (distance != 0) {
    (void)visit_place(qp, packet, begin, data.size(), [&](const std::byte* at, uint64_t length) {
      const auto from = reinterpret_cast<uintptr_t>(at);
      rx.order->ahead_begin = std::min(rx.order->ahead_begin, from);
      rx.order->ahead_end = std::max(rx.order->ahead_end, from + length);
    });
  }
  if (!late) return copy(qp, packet, begin, data);
  // Copies no byte, but checks a receive WQE that gets its first data.
  const ResponderFault fault = copy(qp, packet, begin, {});
  if (fault != ResponderFault::kNone) return fault;
  qp.counters.add(QpCounter::kCellsBehindLater);
  uint64_t offset = 0;
  const AccessFault access = visit_place(qp, packet, begin, data.size(), [&](std::byte* at, uint64_t length) {
    Unwritten unwritten({at, length});
    leave_out_later(qp, psn, unwritten);
    unwritten.for_each(
        [&](uint64_t from, uint64_t bytes) { copy_guarded(at + from, data.data() + offset + from, bytes); });
    offset += length;
  });
  if (access == AccessFault::kNone) return ResponderFault::kNone;
  return packet.fills_wqe ? ResponderFault::kLocalAccess : refused(access);
}

/// Takes the bytes that packets after `psn` have written out of `unwritten`.
void Placement::leave_out_later(QueuePair& qp, Psn psn, Unwritten& unwritten) noexcept {
  const uint32_t segment = qp.path.segment_bytes;
  const auto distance = static_cast<uint64_t>(psn.distance_from(qp.rx.expected));
  for (uint64_t n = distance + 1; n < qp.rx.highest && !unwritten.none(); ++n) {
    const RxPacket* later = qp.rx.find(psn.plus(static_cast<uint32_t>(n - distance)));
    if (later == nullptr || later->placed == 0) continue;
    if (!later->fills_wqe && later->grant.at != nullptr) {
      const auto at = reinterpret_cast<uintptr_t>(later->grant.at);
      if (later->cells == 1) {  // the usual packet of a flood: no division
        unwritten.write(at, later->last_bytes);
        continue;
      }
      const uint64_t near = cells_within(at, segment, unwritten.first_address(), unwritten.end_address());
      for_each_placed(*later, near, segment,
                      [&](uint64_t from, uint64_t bytes) { unwritten.write(at + from, bytes); });
      continue;
    }
    for_each_placed(*later, later->placed, segment, [&](uint64_t from, uint64_t bytes) {
      (void)visit_place(qp, *later, from, bytes, [&](const std::byte* at, uint64_t there) {
        unwritten.write(reinterpret_cast<uintptr_t>(at), there);
      });
    });
  }
}

void Placement::sum_up(const QueuePair& qp, RxPacket& packet, uint32_t number,
                       std::span<const std::byte> data) noexcept {
  const uint32_t parts = hash_parts(0, packet, number);
  const uint32_t body = crc32c_extend(parts, data.data(), data.size());
  const uint64_t head = (number == 0 && !packet.fills_wqe ? kVaBytes : 0) +
                        ((packet.idata_cells >> number & 1) != 0 ? kIdataBytes : 0);
  const uint64_t end = body_begin(qp, packet, number) + head + data.size();
  packet.body_sum ^= crc32c_combine(body, 0, longest_bodies(qp) - end);
}

/// Immediate data in a cell before the last one moves all bodies behind it, which was unknown when they came.
/// The requester here never sends such packets; their CRC is computed from memory. So is the CRC of packets
/// for a QP without packet CRC.
bool Placement::packet_crc_right(QueuePair& qp, const RxPacket& packet) noexcept {
  const uint32_t last = packet.cells - 1U;
  const uint64_t idata = packet.idata_cells >> last & 1;
  if (qp.config.packet_crc && packet.idata_cells == idata << last) {
    const uint64_t whole = (packet.fills_wqe ? 0 : kVaBytes) + uint64_t{last} * qp.path.segment_bytes +
                           idata * kIdataBytes + packet.last_bytes;
    return crc32c_combine(packet.packet_crc, 0, longest_bodies(qp) - whole) == packet.body_sum;
  }
  uint32_t crc = 0;
  for (uint32_t i = 0; i < packet.cells; ++i) {
    crc = hash_parts(crc, packet, i);
    const uint32_t bytes = i == last ? packet.last_bytes : qp.path.segment_bytes;
    (void)visit_place(qp, packet, uint64_t{i} * qp.path.segment_bytes, bytes,
                      [&](const std::byte* at, uint64_t length) { crc = crc_guarded(crc, at, length); });
  }
  return crc == packet.packet_crc;
}

}  // namespace weft::adapter
