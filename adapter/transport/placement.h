// adapter/transport/placement.h -- checks whether a received packet may do its operation, and places its
// data. Every service uses the same checks of operation, length and key, the same copy and the same end of an
// operation. Only this class counts refusals. The responder defines the order in which cells are taken, and
// the answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "adapter/adapter_engine.h"
#include "adapter/several_nics.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/responder_faults.h"
#include "messages/transport_headers.h"

namespace weft::adapter {

class Unwritten;

class Placement {
 public:
  Placement(Engine& engine, CellWriter& writer) noexcept : engine_(engine), writer_(writer) {}

  /// Checks that the QP's service has this operation and that the QP grants it now: its remote rights,
  /// inbound RDMA of the endnode (SAN-NODE-04), the Q_Key of a datagram.
  [[nodiscard]] ResponderFault check_operation(const QueuePair& qp, const CellView& cell) const noexcept;
  /// The part of check_operation() whose result may change while a packet waits for its turn.
  [[nodiscard]] ResponderFault check_rights(const QueuePair& qp, Opcode opcode) const noexcept;

  /// Checks that a Send fits its receive WQE up to byte `end` of the packet.
  [[nodiscard]] ResponderFault check_length(QueuePair& qp, const RxPacket& packet,
                                            uint64_t end) const noexcept {
    const bool fits = !packet.fills_wqe || packet.offset + end <= qp.rq->at(packet.wqe).bytes;
    return fits ? ResponderFault::kNone : ResponderFault::kTooLong;
  }
  /// Checks that the packet's key gives access up to byte `end` of the packet, and to the memory that
  /// received the earlier bytes. Only the last cell tells the range of a packet. The grant for the first cell
  /// therefore names the room behind it, and within this room no look-up is needed while no key is revoked
  /// (decisions P8).
  /// kAwaitsKey: the list of the QP's NIC does not have the key, which may be another NIC's.
  /// @param accepted the bytes were accepted when they arrived: the list that granted them then decides
  [[nodiscard]] ResponderFault check_rkey(const QueuePair& qp, RxPacket& packet, uint64_t end,
                                          bool accepted = false) noexcept {
    if (packet.revision == engine_.computer.revision() && end <= packet.grant.room) [[likely]]
      return ResponderFault::kNone;
    return look_up(qp, packet, end, accepted);
  }
  /// Copies checked bytes to their place, `begin` bytes behind the start of the packet.
  [[nodiscard]] ResponderFault copy(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                                    std::span<const std::byte> data) noexcept;
  /// The same while other packets of the QP are in progress. It keeps the bytes that later packets have
  /// written: writes and Sends of one QP take effect in the order of their packets, whatever the order of
  /// their cells.
  [[nodiscard, gnu::cold]] ResponderFault copy_among_others(QueuePair& qp, Psn psn, const RxPacket& packet,
                                                            uint64_t begin,
                                                            std::span<const std::byte> data) noexcept;
  /// check_length() and check_rkey(), for bytes that came before their packet was open.
  [[nodiscard]] ResponderFault check_place(QueuePair& qp, RxPacket& packet, uint64_t end) noexcept;
  /// check_length(), check_rkey() and copy(), for bytes that arrive.
  [[nodiscard]] ResponderFault place(QueuePair& qp, RxPacket& packet, uint64_t begin,
                                     std::span<const std::byte> data) noexcept;

  /// Executes a write of one cell whose turn has come: makes all checks, copies the data and uses up a
  /// one-shot key. Returns false, without counting anything, when a check fails or the memory is not
  /// contiguous.
  [[nodiscard]] bool write_at_once(QueuePair& qp, const CellView& cell) noexcept;
  /// The same for the bytes of a write from byte `begin` of its packet, behind the bytes that are already
  /// placed.
  [[nodiscard]] bool write_on(const RxPacket& packet, uint64_t begin,
                              std::span<const std::byte> data) noexcept;
  /// The same for a Send into the next WQE of a queue that is not empty. Also false unless this WQE has
  /// exactly one segment.
  /// @param known  the range into which the last Send of this QP went, if the caller keeps it
  [[nodiscard]] bool receive_at_once(RecvQueue& queue, std::span<const std::byte> data,
                                     KnownRange* known = nullptr) noexcept;

  /// The packet's turn to be executed has come. Checks that it continues its message, that the message is not
  /// too long, and that the packet, which may have been placed long before, is still allowed.
  [[nodiscard]] ResponderFault check_turn(QueuePair& qp, RxPacket& packet, uint32_t bytes) noexcept;
  /// Adds the packet to its message.
  void pass_turn(QueuePair& qp, const RxPacket& packet, uint32_t bytes) noexcept;
  /// The message ends with this packet: uses up a one-shot key (SAN-RMP-12) and invalidates the key that the
  /// message names.
  [[nodiscard]] ResponderFault finish(QueuePair& qp, const RxPacket& last) noexcept;

  /// Checks that the source of an RDMA read may be read: called before the read is queued and again for each
  /// cell that leaves. On kNone `job.grant` locates the source.
  [[nodiscard]] ResponderFault check_read(const QueuePair& qp, ReadJob& job) noexcept;
  /// Checks key, range and alignment of an atomic operation and executes it, atomic also with the processor's
  /// own atomic instructions. On kNone the packet's grant and `old_value` are set.
  [[nodiscard]] ResponderFault execute_atomic(const QueuePair& qp, const FetchRequestWire& request,
                                              RxPacket& packet, uint64_t& old_value) noexcept;
  /// Adds the body of a cell to the CRC of its packet; cells may come in any order. The CRC is over the
  /// received bytes, because others may write to the target memory as well.
  [[gnu::cold]] static void sum_up(const QueuePair& qp, RxPacket& packet, uint32_t number,
                                   std::span<const std::byte> data) noexcept;
  /// PUSH-CELL-08: checks the CRC over VA and key, immediate data and data of all cells in cell order.
  [[nodiscard]] bool packet_crc_right(QueuePair& qp, const RxPacket& packet) noexcept;

  /// Counts and reports the refusal of a message. A QP that goes on reports each kind once.
  /// @param end the byte of the packet at which the cell ends, as far as known
  [[gnu::cold]] void refuse(QueuePair& qp, const RxPacket& packet, ResponderFault fault,
                            uint64_t end) noexcept;
  /// Memory that a read was granted is no longer mapped.
  [[gnu::cold]] void refuse_gone(QueuePair& qp, const RxPacket& asked, uint64_t bytes) noexcept;
  /// The same for a message that has no open packet: only its cell is known.
  [[gnu::cold]] void refuse(QueuePair& qp, const CellView& cell, ResponderFault fault) noexcept;
  /// RC: ends the QP after the refusal of a request. `has_wqe`: the request has taken a receive WQE, which
  /// completes if the rule says so.
  [[gnu::cold]] void end_qp(QueuePair& qp, const FaultRule& rule, bool has_wqe) noexcept;
  /// Reports a missing receive WQE only when it persists; a single occurrence is normal.
  [[gnu::cold]] void note_no_receive(QueuePair& qp, FailedWork work) noexcept;
  /// Counts a refusal on the QP and, by reason, on the adapter.
  void count(QueuePair& qp, ResponderFault fault) noexcept;

 private:
  template <class Action>
  [[nodiscard]] AccessFault visit_place(QueuePair& qp, const RxPacket& packet, uint64_t begin, uint64_t bytes,
                                        Action action) noexcept;
  [[nodiscard, gnu::noinline]] bool write_by_table(QueuePair& qp, const CellView& cell) noexcept;
  void leave_out_later(QueuePair& qp, Psn psn, Unwritten& unwritten) noexcept;
  [[nodiscard]] bool meets_what_is_ahead(QueuePair& qp, const RxPacket& packet, uint64_t begin,
                                         uint64_t bytes) noexcept;
  [[nodiscard, gnu::cold]] ResponderFault look_up(const QueuePair& qp, RxPacket& packet, uint64_t end,
                                                  bool accepted) noexcept;
  /// The list of keys by which a request of this QP is checked: that of the NIC at which it arrived. A
  /// service that is not reached through a port takes that of the NIC which made the key.
  [[nodiscard]] const MemoryTable& list_for(const QueuePair& qp, Rkey key) const noexcept {
    return qp.row->waits_for_keys ? *qp.memory : engine_.computer.of(key.value());
  }
  /// The list has refused a key. True when the key may be another NIC's.
  [[nodiscard]] bool may_ask(const QueuePair& qp, AccessFault fault, Rkey key) const noexcept {
    return fault == AccessFault::kNotValid && engine_.several_nics != nullptr && qp.row->waits_for_keys &&
           engine_.several_nics->questions.may_ask(qp, key.value());
  }
  [[nodiscard]] AccessFault invalidate(const QueuePair& qp, PdId pd, Rkey key) noexcept;

  /// The protection domain of a request: the QP's, or for an XRC target that of the shared receive queue
  /// `srq`. Null when the target's XRC domain has no such queue.
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
  AccessFault refused_ = AccessFault::kNone;  // the latest refusal
  bool misaligned_ = false;                   // an atomic was refused for its address and is not yet reported
};

/// Resets `packet` to the packet of `cell`.
void begin_packet(RxPacket& packet, const CellView& cell) noexcept;
/// Adds to `packet` the information in a cell.
void describe_packet(RxPacket& packet, const CellView& cell) noexcept;

}  // namespace weft::adapter
