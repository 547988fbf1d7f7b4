// adapter/transport/placement.h -- may what arrived be done here, and where do its bytes go? The checks of
// operation, length and key, the copy, and the end of an operation, the same for every service; what is
// refused is counted here and nowhere else. A responder says in which order cells are taken and who hears of
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/responder_faults.h"
#include "messages/transport_headers.h"

namespace weft::adapter {

class Unwritten;

class Placement {
 public:
  Placement(Engine& engine, CellWriter& writer) noexcept : engine_(engine), writer_(writer) {}

  /// Has the QP's service this operation, and does the QP grant it now: its remote rights, inbound RDMA of
  /// the endnode (SAN-NODE-04), a datagram's Q_Key?
  [[nodiscard]] ResponderFault check_operation(const QueuePair& qp, const CellView& cell) const noexcept;
  /// The part of it that may change while a packet waits for its turn.
  [[nodiscard]] ResponderFault check_rights(const QueuePair& qp, Opcode opcode) const noexcept;

  /// A Send fits its receive WQE up to byte `end` of the packet.
  [[nodiscard]] ResponderFault check_length(QueuePair& qp, const RxPacket& packet,
                                            uint64_t end) const noexcept {
    const bool fits = !packet.fills_wqe || packet.offset + end <= qp.rq->at(packet.wqe).bytes;
    return fits ? ResponderFault::kNone : ResponderFault::kTooLong;
  }
  /// The packet's key opens its memory up to byte `end` of the packet, and it is the memory where earlier
  /// bytes went. The range of a packet is known only with its last cell: the grant for its first cell says
  /// how much room there is behind, and no look-up is needed inside it while nothing is revoked (decisions
  /// P8).
  [[nodiscard]] ResponderFault check_rkey(const QueuePair& qp, RxPacket& packet, uint64_t end) noexcept {
    if (packet.revision == engine_.memory.revision() && end <= packet.grant.room) [[likely]]
      return ResponderFault::kNone;
    return look_up(qp, packet, end);
  }
  /// Copies checked bytes to their place, `begin` bytes behind the start of the packet.
  [[nodiscard]] ResponderFault copy(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                                    std::span<const std::byte> data) noexcept;
  /// The same where other packets of the QP are under way: what later ones have written stays, for writes and
  /// Sends of one QP happen in the order of their packets, whatever the order in which their cells come.
  [[nodiscard, gnu::cold]] ResponderFault copy_among_others(QueuePair& qp, Psn psn, const RxPacket& packet,
                                                            uint64_t begin,
                                                            std::span<const std::byte> data) noexcept;
  /// check_length() and check_rkey(), for bytes whose packet was not open when they came.
  [[nodiscard]] ResponderFault check_place(QueuePair& qp, RxPacket& packet, uint64_t end) noexcept;
  /// check_place() and copy().
  [[nodiscard]] ResponderFault place(QueuePair& qp, RxPacket& packet, uint64_t begin,
                                     std::span<const std::byte> data) noexcept;

  /// A write that is one cell and whose turn has come: asks for everything at once and puts its bytes where
  /// they belong, and a one-shot key has served. False, and nothing is counted: something of it is refused,
  /// or its memory lies in pages.
  [[nodiscard]] bool write_at_once(QueuePair& qp, const CellView& cell) noexcept;
  /// Likewise the bytes of a write from byte `begin` of its packet on, behind those that are placed already.
  [[nodiscard]] bool write_on(const RxPacket& packet, uint64_t begin,
                              std::span<const std::byte> data) noexcept;
  /// Likewise a Send, for the next WQE of a queue that has one. False, too, unless that has one segment.
  [[nodiscard]] bool receive_at_once(RecvQueue& queue, std::span<const std::byte> data) noexcept;

  /// A packet's turn to be executed has come: it goes on where its message was, the message is not too long,
  /// and whatever allowed its placement allows it still, though it may have been placed long before.
  [[nodiscard]] ResponderFault check_turn(QueuePair& qp, RxPacket& packet, uint32_t bytes) noexcept;
  /// Counts the packet to its message.
  void pass_turn(QueuePair& qp, const RxPacket& packet, uint32_t bytes) noexcept;
  /// The message has ended with this packet: a one-shot key has served (SAN-RMP-12), and the key that the
  /// message names for it is invalidated.
  [[nodiscard]] ResponderFault finish(QueuePair& qp, const RxPacket& last) noexcept;

  /// The source of an RDMA read may be read: asked before it is queued and again for each cell that leaves.
  /// On kNone `job.grant` says where it lies.
  [[nodiscard]] ResponderFault check_read(const QueuePair& qp, ReadJob& job) noexcept;
  /// Checks key, range and alignment of an atomic operation and executes it, atomic also towards the
  /// processor's own atomic instructions. The packet's grant and `old_value` are set on kNone.
  [[nodiscard]] ResponderFault execute_atomic(const QueuePair& qp, const FetchRequestWire& request,
                                              RxPacket& packet, uint64_t& old_value) noexcept;
  /// Counts the body of a cell to the sum of its packet, in whatever order cells come: what is summed is what
  /// came, for the memory may be others' to write as well.
  [[gnu::cold]] static void sum_up(const QueuePair& qp, RxPacket& packet, uint32_t number,
                                   std::span<const std::byte> data) noexcept;
  /// PUSH-CELL-08: the sum over VA and key, immediate data and data of all cells in cell order.
  [[nodiscard]] bool packet_crc_right(QueuePair& qp, const RxPacket& packet) noexcept;

  /// A message is refused: counts it, and people hear of it, of each kind once where the QP goes on.
  /// @param end bytes of the packet that the cell in question ends at, as far as they are known
  [[gnu::cold]] void refuse(QueuePair& qp, const RxPacket& packet, ResponderFault fault,
                            uint64_t end) noexcept;
  /// Memory that a read was granted has gone.
  [[gnu::cold]] void refuse_gone(QueuePair& qp, const RxPacket& asked, uint64_t bytes) noexcept;
  /// The same for a message that no packet was opened for: its cell is all that is known.
  [[gnu::cold]] void refuse(QueuePair& qp, const CellView& cell, ResponderFault fault) noexcept;
  /// Counts a refusal: on the QP and, by reason, on the adapter.
  void count(QueuePair& qp, ResponderFault fault) noexcept;

 private:
  template <class Action>
  [[nodiscard]] AccessFault visit_place(QueuePair& qp, const RxPacket& packet, uint64_t begin, uint64_t bytes,
                                        Action action) noexcept;
  void leave_out_later(QueuePair& qp, Psn psn, Unwritten& unwritten) noexcept;
  [[nodiscard]] bool meets_what_is_ahead(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                                         uint64_t bytes) noexcept;
  [[nodiscard, gnu::cold]] ResponderFault look_up(const QueuePair& qp, RxPacket& packet,
                                                  uint64_t end) noexcept;

  /// Whose memory a request names: the QP's protection domain; of an XRC target, that of the shared receive
  /// queue `srq`. Null when the target's XRC domain has no such queue.
  [[nodiscard]] const PdId* domain_of(const QueuePair& qp, uint32_t srq) const noexcept {
    if (!qp.row->serves_domain) [[likely]]
      return &qp.config.pd;
    const SharedReceiveQueue* found = engine_.srqs.find(qp, srq);
    return found == nullptr ? nullptr : &found->config.pd;
  }
  [[nodiscard, gnu::cold]] ResponderFault refused(AccessFault fault) noexcept;
  [[nodiscard]] Reason reason_of(const QueuePair& qp, Opcode opcode, ResponderFault fault) const noexcept;
  void report(QueuePair& qp, Failure failure, ResponderFault fault) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  AccessFault refused_ = AccessFault::kNone;  // the latest
  bool misaligned_ = false;                   // an atomic was refused for its address, and not reported yet
};

/// Forgets what `packet` was and makes it the one that `cell` belongs to.
void begin_packet(RxPacket& packet, const CellView& cell) noexcept;
/// What a cell says of its packet.
void describe_packet(RxPacket& packet, const CellView& cell) noexcept;

}  // namespace weft::adapter
