// adapter/transport/cell_writer.h -- cuts messages into packets and cells and writes the cells to the fabric
// (PUSH-CELL-01..11). A cell is written once, directly into the carrier's memory: the header from the QP's
// template, the data gathered from the WQE's segments and hashed in the same pass (decisions P1, P2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "adapter/adapter_engine.h"
#include "adapter/queues/queue_pair.h"
#include "messages/cell.h"
#include "messages/transport_headers.h"

namespace weft::adapter {

/// Number of cells of a packet of `bytes`. A packet without data has one cell.
[[nodiscard]] constexpr uint32_t cells_of(uint32_t bytes, uint32_t segment_bytes) noexcept {
  return bytes <= segment_bytes ? 1 : (bytes + segment_bytes - 1) / segment_bytes;
}

enum class CellSent : uint8_t {
  kYes,
  kNoCredit,    // nothing was sent; try again in the next turn
  kLocalFault,  // the QP may not read the memory, or no page is mapped; nothing was sent
  kBadFrame,    // the data is no IPv6 packet
};

/// The carrier of a cell and the constant part of its header.
struct Outlet {
  fabric::CellPort* carrier;
  CellTemplate fixed{};
  VirtualLane vl{};
  const GlobalHeaderWire* global = nullptr;  // for another subnet
  uint8_t flags2 = 0;                        // QpPath::flags2
};

class CellWriter {
 public:
  explicit CellWriter(Engine& engine) noexcept : engine_(engine) {}

  /// Sends cell `number` of a request packet.
  [[nodiscard]] CellSent send_request_cell(QueuePair& qp, TxPacket& packet, Psn psn,
                                           uint32_t number) noexcept;
  /// Sends an IPv6 packet as a raw frame: the IPv6 header becomes the cell's global header (SAN-XPORT-15).
  [[nodiscard]] CellSent send_ipv6_frame(QueuePair& qp, const TxPacket& packet, Psn psn) noexcept;
  /// Sends the next response cell of an RDMA read. The caller holds the grant of the job.
  [[nodiscard]] CellSent send_read_response(QueuePair& qp, const ReadJob& job) noexcept;
  /// Sends the old value of the word that an atomic operation changed.
  [[nodiscard]] CellSent send_atomic_response(QueuePair& qp, const ReadJob& job) noexcept;
  /// Sends an ACK or NAK with its selective blocks, 16 bytes each, ready for the wire.
  [[nodiscard]] CellSent send_ack(const Outlet& outlet, const AckBody& body,
                                  std::span<const std::byte> blocks) noexcept;
  /// Sends an acknowledgement that names the sender's LIDs, with the PSN of its oldest packet in flight
  /// (adapter/transport/ways.h).
  [[nodiscard]] CellSent send_ways(const Outlet& outlet, Psn psn, const AckBody& body,
                                   const WaysWire& ways) noexcept;

  /// Checks every data segment of a WQE; false when the QP may not access one (SAN-QP-02).
  [[nodiscard]] bool check_segments(QueuePair& qp, uint64_t wqe, AccessKind kind) noexcept;

  /// The first faulty data segment of a WQE, after a check or a copy has failed. If no segment is faulty any
  /// more, the first one; null for a WQE without segments.
  [[gnu::cold, nodiscard]] const Sge* find_bad_segment(QueuePair& qp, uint64_t wqe, AccessKind kind) noexcept;
  [[gnu::cold, nodiscard]] const Sge* find_bad_receive(RecvQueue& queue, RecvSlot wqe) const noexcept;
  /// The fault of `segment`; kNone for null.
  [[gnu::cold, nodiscard]] AccessFault fault_of(PdId pd, const Sge* segment, AccessKind kind) const noexcept;

  /// Copies payload to its place in a scatter list and checks each piece. Returns kNone, or the fault at
  /// which it stopped.
  [[nodiscard]] AccessFault scatter(PdId pd, std::span<const Sge> list, uint64_t offset,
                                    std::span<const std::byte> from) noexcept;
  /// The same for a response that has arrived: by the list of the NIC at which it arrived (MIG-READ-01).
  [[nodiscard]] AccessFault place_response(const QueuePair& qp, std::span<const Sge> list, uint64_t offset,
                                           std::span<const std::byte> from) noexcept;

  /// Copies payload to its place in a receive WQE. The first call for a WQE checks all its segments, so that
  /// nothing is stored when one of them is faulty (TPT-LOCAL-03).
  [[nodiscard]] AccessFault place_received(RecvQueue& queue, RecvSlot wqe, uint64_t offset,
                                           std::span<const std::byte> from) noexcept;

 private:
  template <class Memory>
  [[nodiscard]] AccessFault scatter_by(const Memory& memory, PdId pd, std::span<const Sge> list,
                                       uint64_t offset, std::span<const std::byte> from) noexcept;
  /// The first faulty segment, else the first one.
  [[gnu::cold, nodiscard]] const Sge* find_bad(PdId pd, std::span<const Sge> list,
                                               AccessKind kind) const noexcept;

  /// Checks that the protection domain may access every segment with `kind`. Returns kNone, or the first
  /// fault, which is also counted.
  [[nodiscard]] AccessFault check_list(PdId pd, std::span<const Sge> list, AccessKind kind) noexcept;
  [[nodiscard]] const GlobalHeaderWire* datagram_header(const QueuePair& qp, const SendWqe& wqe,
                                                        GlobalHeaderWire& header) noexcept;
  [[nodiscard]] Outlet outlet_of(QueuePair& qp, const SendWqe& wqe) noexcept;
  [[nodiscard]] bool members_here(QueuePair& qp, const SendWqe& wqe) const noexcept;
  void copy_to_members(QueuePair& qp, VirtualLane vl, std::span<const std::byte> cell, uint32_t crc) noexcept;
  [[nodiscard]] CellSent send_acknowledgement(const Outlet& outlet, Opcode opcode, Psn psn,
                                              const AckBody& body,
                                              std::span<const std::byte> payload) noexcept;
  [[nodiscard]] static bool is_plain(const QueuePair& qp, uint32_t properties) noexcept;
  [[nodiscard]] CellSent send_plain_cell(QueuePair& qp, TxPacket& packet, Psn psn, uint32_t number) noexcept;
  [[nodiscard]] CellSent send_any_cell(QueuePair& qp, TxPacket& packet, Psn psn, uint32_t number) noexcept;
  [[nodiscard]] CellSent send_read_request(QueuePair& qp, TxPacket& packet, Psn psn) noexcept;
  [[nodiscard]] CellSent send_atomic_request(QueuePair& qp, TxPacket& packet, Psn psn) noexcept;
  [[nodiscard]] CellSent send_one_cell(QueuePair& qp, const CellVariable& variable,
                                       std::span<const std::byte> body) noexcept;
  template <class Request>
  [[nodiscard]] CellSent send_header(QueuePair& qp, const TxPacket& packet, Psn psn,
                                     const Request& request) noexcept;
  [[nodiscard]] AccessFault gather(QueuePair& qp, const TxPacket& packet, uint64_t offset,
                                   std::span<std::byte> to, uint32_t& crc) noexcept;

  Engine& engine_;
};

}  // namespace weft::adapter
