// adapter/transport/completer.h -- the requester's other half: takes ACKs, NAKs and read responses, marks
// what has to be repeated, completes WQEs in the order of posting (PUSH-CHAN-02, SAN-XPORT-17) and runs the
// retransmission timer.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"

namespace weft::adapter {

/// What a NAK means to the requester; one row per code, `repeats` when the packet is sent again.
struct NakRule {
  AckCode code;
  bool repeats;
  WcStatus status;  // of the WQE when not repeated
  Reason reason;    // likewise
};
[[nodiscard]] const NakRule& nak_rule(AckCode code) noexcept;

/// Why a request of ours fails. `segment`: the data segment that is at fault.
struct SendFault {
  WcStatus status;
  Reason reason;
  const Sge* segment = nullptr;
};

class Completer {
 public:
  Completer(Engine& engine, CellWriter& writer) noexcept : engine_(engine), writer_(writer) {}

  /// An ACK or NAK cell from the bound peer.
  void take_ack(QueuePair& qp, const CellView& cell) noexcept;
  /// A cell of an RDMA read response from the bound peer.
  void take_read_response(QueuePair& qp, const CellView& cell) noexcept;
  /// All pending cells of packet `number` have left. Unacknowledged services complete here (PUSH-CHAN-03).
  void packet_sent(QueuePair& qp, uint64_t number) noexcept;
  /// Packet `number` cannot be sent: its WQE fails once those before it have completed.
  void fail_packet(QueuePair& qp, uint64_t number, const SendFault& fault) noexcept;
  /// The WQE fails when its turn to complete comes; people hear of it now.
  [[gnu::cold]] void fail_wqe(QueuePair& qp, SendWqe& wqe, const SendFault& fault) noexcept;
  /// The registration WQE that was just executed has failed: the QP goes where its option says. retire()
  /// completes it.
  void registration_failed(QueuePair& qp) noexcept;
  /// Completes every WQE at the head of the queue that is done.
  void retire(QueuePair& qp) noexcept;
  /// Everything that was begun is completed.
  [[nodiscard]] static bool drained(const QueuePair& qp) noexcept;
  /// The QP's timer has come up: retransmission, end of an RNR pause or of a delay.
  void on_timer(QueuePair& qp) noexcept;
  /// False when on_timer() would find nothing to do, now or later.
  [[nodiscard]] bool waits_for_time(const QueuePair& qp) const noexcept;
  /// The path is another one: everything in flight is sent again where it is missing, and waited for anew.
  void repeat_all(QueuePair& qp) noexcept;
  /// The link was lost and is back: the same, and what was waited before that is not forgotten.
  void repeat_by_new_link(QueuePair& qp) noexcept;

 private:
  struct Progress {
    bool any = false;
  };
  [[nodiscard]] bool take_ack_of_failed(QueuePair& qp, const CellView& cell, Progress& progress) noexcept;
  void acknowledge_before(QueuePair& qp, uint64_t number, Progress& progress) noexcept;
  void acknowledge_cells(QueuePair& qp, uint64_t number, uint64_t cells, Progress& progress) noexcept;
  void take_blocks(QueuePair& qp, const CellView& cell, Progress& progress) noexcept;
  void take_nak(QueuePair& qp, const CellView& cell, uint64_t number) noexcept;
  void repair_gaps(QueuePair& qp) noexcept;
  void made_progress(QueuePair& qp) noexcept;
  void repeat(QueuePair& qp, uint64_t number, uint64_t cells) noexcept;
  void wait_on(QueuePair& qp) noexcept;
  void repeat_missing(QueuePair& qp) noexcept;
  void repeat_from(QueuePair& qp, uint64_t number, uint32_t cells_max) noexcept;
  void take_time(SendSide& tx, const TxPacket& packet, uint64_t cells) noexcept;
  void sample_rtt(SendSide& tx, Duration sample) noexcept;
  void on_retransmit_timer(QueuePair& qp) noexcept;
  void stand_by(QueuePair& qp) noexcept;
  void retire_packets(QueuePair& qp) noexcept;
  [[nodiscard]] bool complete_head(QueuePair& qp) noexcept;
  [[gnu::cold, nodiscard]] bool complete_failed(QueuePair& qp, const SendWqe& wqe) noexcept;
  [[gnu::cold]] void note_foreign_ack(QueuePair& qp) noexcept;
  [[gnu::cold]] void note_rnr(QueuePair& qp, uint64_t number) noexcept;
  [[nodiscard]] static Reason silence_reason(QueuePair& qp) noexcept;
  [[nodiscard]] bool number_of(const QueuePair& qp, Psn psn, uint64_t& number) const noexcept;
  void rearm(QueuePair& qp) noexcept;
  void pace(QueuePair& qp, uint32_t bytes) noexcept;

  Engine& engine_;
  CellWriter& writer_;
};

}  // namespace weft::adapter
