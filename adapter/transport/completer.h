// adapter/transport/completer.h -- the second half of the requester: takes ACKs, NAKs and read responses,
// marks the cells to repeat, completes WQEs in the order of posting (PUSH-CHAN-02, SAN-XPORT-17) and runs the
// retransmission timer.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"

namespace weft::adapter {

/// The requester's reaction to a NAK, one row per code. `repeats`: the packet is sent again.
struct NakRule {
  AckCode code;
  bool repeats;
  Reason reason;  // of the failed WQE when its packet is not repeated, or its retries are used up
};
[[nodiscard]] const NakRule& nak_rule(AckCode code) noexcept;

/// Why a local request fails. `segment`: the faulty data segment, if any.
struct SendFault {
  Reason reason;
  const Sge* segment = nullptr;
};

class Completer {
 public:
  Completer(Engine& engine, CellWriter& writer) noexcept : engine_(engine), writer_(writer) {}

  /// Takes an ACK or NAK cell from the bound peer.
  void take_ack(QueuePair& qp, const CellView& cell) noexcept;
  /// Takes a cell of an RDMA read response from the bound peer.
  void take_read_response(QueuePair& qp, const CellView& cell) noexcept;
  /// All pending cells of packet `number` have left. Packets of services without acknowledgements complete
  /// here (PUSH-CHAN-03).
  void packet_sent(QueuePair& qp, uint64_t number) noexcept;
  /// Packet `number` cannot be sent: its WQE fails after those before it have completed.
  void fail_packet(QueuePair& qp, uint64_t number, const SendFault& fault) noexcept;
  /// Marks the WQE as failed and reports the failure at once. The WQE completes in its turn.
  [[gnu::cold]] void fail_wqe(QueuePair& qp, SendWqe& wqe, const SendFault& fault) noexcept;
  /// The registration WQE that was just executed has failed: the QP takes the state that
  /// QpConfig::registration asks for. retire() completes the WQE.
  void registration_failed(QueuePair& qp) noexcept;
  /// Completes the finished WQEs at the head of the queue.
  void retire(QueuePair& qp) noexcept;
  /// Every WQE that was begun is completed.
  [[nodiscard]] static bool drained(const QueuePair& qp) noexcept;
  /// The QP's timer has come up: retransmission, or the end of an RNR pause or of a delay.
  void on_timer(QueuePair& qp) noexcept;
  /// The end of on_timer(): a QP whose delay is over gets a turn; the timer is armed for the next deadline.
  void await_next(QueuePair& qp) noexcept;
  /// False when on_timer() has nothing to do, now or later.
  [[nodiscard]] bool waits_for_time(const QueuePair& qp) const noexcept;
  /// The path has changed: repeats the missing cells in flight, and counts the retries from 0.
  void repeat_all(QueuePair& qp) noexcept;
  /// The link was lost and is back: repeats the missing cells, and keeps the count of retries.
  void repeat_by_new_link(QueuePair& qp) noexcept;

 private:
  struct Progress {
    bool any = false;
  };
  [[nodiscard]] bool take_ack_of_failed(QueuePair& qp, const CellView& cell, Progress& progress) noexcept;
  void acknowledge_before(QueuePair& qp, uint64_t number, Progress& progress) noexcept;
  void acknowledge_cells(QueuePair& qp, uint64_t number, uint64_t cells, Progress& progress) noexcept;
  [[gnu::cold]] bool take_ways(QueuePair& qp, const CellView& cell) noexcept;
  void take_blocks(QueuePair& qp, const CellView& cell, Progress& progress) noexcept;
  void take_nak(QueuePair& qp, const CellView& cell, uint64_t number) noexcept;
  void repair_gaps(QueuePair& qp) noexcept;
  [[nodiscard, gnu::cold]] bool awaits_key(QueuePair& qp, const TxPacket& packet,
                                           const CellView& cell) noexcept;
  void made_progress(QueuePair& qp) noexcept;
  void repeat(QueuePair& qp, uint64_t number, uint64_t cells) noexcept;
  void wait_on(QueuePair& qp, Duration time) noexcept;
  void repeat_missing(QueuePair& qp) noexcept;
  void repeat_from(QueuePair& qp, uint64_t number, uint32_t cells_max) noexcept;
  void take_time(SendSide& tx, const TxPacket& packet, uint64_t cells) noexcept;
  void sample_rtt(SendSide& tx, Duration sample) noexcept;
  void on_retransmit_timer(QueuePair& qp) noexcept;
  [[nodiscard]] bool waits_at_neighbour(QueuePair& qp) noexcept;
  bool forgive(QueuePair& qp) noexcept;
  void stand_by(QueuePair& qp) noexcept;
  void retire_packets(QueuePair& qp) noexcept;
  [[nodiscard]] bool complete_head(QueuePair& qp) noexcept;
  [[gnu::cold, nodiscard]] bool complete_failed(QueuePair& qp, const SendWqe& wqe) noexcept;
  [[gnu::cold]] void note_foreign_ack(QueuePair& qp) noexcept;
  [[gnu::cold]] void note_rnr(QueuePair& qp, uint64_t number) noexcept;
  [[nodiscard]] static Reason silence_reason(QueuePair& qp) noexcept;
  [[nodiscard]] bool number_of(const QueuePair& qp, Psn psn, uint64_t& number) const noexcept;
  void rearm(QueuePair& qp) noexcept;
  void head_moved(SendSide& tx) noexcept;
  [[nodiscard]] Instant head_due(QueuePair& qp) const noexcept;
  void pace(QueuePair& qp, uint32_t bytes) noexcept;

  Engine& engine_;
  CellWriter& writer_;
};

}  // namespace weft::adapter
