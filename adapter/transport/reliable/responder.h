// adapter/transport/reliable/responder.h -- the receiving half of RC: named steps from the arrival of a
// request cell to its acknowledgement (house style 26). docs/transport.md shows the same names in a picture.
#pragma once

#include <cstdint>
#include <span>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

class Responder {
 public:
  Responder(Engine& engine, CellWriter& writer) noexcept
      : engine_(engine), writer_(writer), placement_(engine, writer) {}

  /// Takes a request cell from the bound peer of a connected QP.
  void take_request(QueuePair& qp, const CellView& cell) noexcept;
  /// A receive WQE was posted: continues a message that waited for one.
  void receive_posted(QueuePair& qp) noexcept;
  /// Sends response cells of RDMA reads and atomics; returns how many.
  uint32_t send_reads(QueuePair& qp, uint32_t budget, bool& blocked) noexcept;

 private:
  enum class Step : uint8_t {
    kCheckSequence,
    kCheckOperation,
    kCheckResources,
    kCheckLength,
    kCheckRkey,
    kExecute,
    kComplete,
    kAcknowledge,
    kDone,
  };
  /// One cell on its way through the steps.
  struct Arrival {
    QueuePair& qp;
    const CellView& cell;
    RxPacket& packet;
    uint64_t distance;        // from the expected PSN, in packets
    uint64_t highest_before;  // ReceiveSide::highest before this cell

    /// Where the cell's data begins and ends in its packet, in bytes.
    [[nodiscard]] uint64_t begin() const noexcept {
      return uint64_t{cell.cell_number} * qp.path.segment_bytes;
    }
    [[nodiscard]] uint64_t end() const noexcept { return begin() + cell.payload.size(); }
  };

  [[nodiscard]] bool take_whole(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] bool take_next(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] bool check_psn(QueuePair& qp, const CellView& cell) noexcept;
  void take_in_window(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] Step check_sequence(Arrival& arrival) noexcept;
  [[nodiscard]] Step check_operation(Arrival& arrival) noexcept;
  [[nodiscard]] Step check_resources(Arrival& arrival) noexcept;
  [[nodiscard]] Step check_length(Arrival& arrival) noexcept;
  [[nodiscard]] Step check_rkey(Arrival& arrival) noexcept;
  [[nodiscard]] Step execute(Arrival& arrival) noexcept;
  [[nodiscard]] Step complete(Arrival& arrival) noexcept;
  void acknowledge(Arrival& arrival) noexcept;

  void take_duplicate(QueuePair& qp, const CellView& cell) noexcept;
  [[gnu::cold]] void note_other_psn(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] Step refuse(Arrival& arrival, ResponderFault fault) noexcept {
    return refuse(arrival, fault, arrival.end());
  }
  [[nodiscard]] Step refuse(Arrival& arrival, ResponderFault fault, uint64_t end) noexcept;
  [[nodiscard]] Step hold(Arrival& arrival) noexcept;
  [[nodiscard, gnu::cold]] Step wait_for_key(Arrival& arrival, Rkey key) noexcept;
  void undo_open(Arrival& arrival) noexcept;
  void give_back_memory(QueuePair& qp, Psn psn) noexcept;
  [[nodiscard]] bool consistent(const Arrival& arrival) const noexcept;
  void note_turn(Arrival& arrival) noexcept;
  static void note_ahead(Arrival& arrival) noexcept;
  void open_packet(Arrival& arrival) noexcept;
  [[nodiscard]] ResponderFault read_job(const QueuePair& qp, const CellView& cell, ReadJob& job) noexcept;
  [[nodiscard]] Step queue_read(Arrival& arrival) noexcept;
  /// Answers waiting reads before a request that may change their data. Returns false when the QP has failed
  /// on the way.
  [[nodiscard, gnu::cold]] bool answer_before(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] Step take_atomic(Arrival& arrival) noexcept;
  void repeat_atomic(QueuePair& qp, const CellView& cell) noexcept;
  void answer_later(QueuePair& qp, const ReadJob& job) noexcept;
  static void remember_executed(ReceiveSide& rx, const ExecutedRead& executed) noexcept;
  /// The executed read or atomic of the same request; null when it is not among the newest.
  [[nodiscard]] static const ExecutedRead* find_executed(ReceiveSide& rx, const ExecutedRead& asked) noexcept;
  void repeat_read(QueuePair& qp, const CellView& cell) noexcept;

  // Packets, in PSN order.
  void resolve_bases(QueuePair& qp) noexcept;
  [[nodiscard]] bool select_queue(QueuePair& qp, RxPacket& packet) noexcept;
  [[nodiscard]] bool queue_dry(const QueuePair& qp, const RxPacket& packet) const noexcept;
  [[nodiscard]] bool assign_send(QueuePair& qp, RxPacket& packet) noexcept;
  [[nodiscard]] bool pass_write(QueuePair& qp, RxPacket& packet) noexcept;
  void place_stashed(QueuePair& qp, Psn psn, RxPacket& packet) noexcept;
  void open_in_turn(QueuePair& qp, RxPacket& packet) noexcept;
  [[nodiscard]] ResponderFault put(QueuePair& qp, Psn psn, RxPacket& packet, uint32_t number,
                                   std::span<const std::byte> data) noexcept;
  void mark_placed(QueuePair& qp, Psn psn, RxPacket& packet, uint32_t number) noexcept;
  void complete_in_order(QueuePair& qp) noexcept;
  [[nodiscard]] bool finish_packet(QueuePair& qp, RxPacket& packet) noexcept;
  [[nodiscard]] bool finish_message(QueuePair& qp, RxPacket& packet) noexcept;
  [[nodiscard]] bool refuse_in_turn(QueuePair& qp, RxPacket& packet, ResponderFault fault) noexcept;
  void answer_refusal(QueuePair& qp, RxPacket& packet) noexcept;
  void answer_after_reads(QueuePair& qp) noexcept;
  bool drop_read(QueuePair& qp, const ReadJob& job) noexcept;
  void send_rnr(QueuePair& qp) noexcept;
  [[nodiscard]] uint32_t packet_bytes(const QueuePair& qp, const RxPacket& packet) const noexcept;

  Engine& engine_;
  CellWriter& writer_;
  Placement placement_;
};

}  // namespace weft::adapter
