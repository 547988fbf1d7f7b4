// adapter/transport/reliable/acknowledger.h -- when and how the responder acknowledges (decisions 2.3, 2.4).
// ACKs need no queue: each is made from the responder's state when it is sent. Only strict mode keeps a list,
// one entry per cell.
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"

namespace weft::adapter {

/// Notes a NAK to send. A NAK that ends the connection is not replaced by another.
void set_nak(QueuePair& qp, AckCode code, Psn psn, uint16_t cell) noexcept;
/// Strict mode: queues an ACK for this cell; false when the list is full. Selective mode: true.
bool add_strict_ack(QueuePair& qp, Psn psn, uint16_t cell) noexcept;
[[nodiscard]] bool strict_acks_full(const QueuePair& qp) noexcept;

class Acknowledger {
 public:
  Acknowledger(Engine& engine, CellWriter& writer) noexcept : engine_(engine), writer_(writer) {}

  /// Sends the due acknowledgements of `qp`. Returns cells sent; `done` is false while some are left.
  uint32_t run(QueuePair& qp, bool& done) noexcept;
  /// An acknowledgement or NAK is due now.
  [[nodiscard]] bool due(const QueuePair& qp) const noexcept {
    const AckDebt& debt = qp.rx.debt;
    return debt.due_now() || debt.has_nak() || qp.config.ack_mode == AckMode::kStrict ||
           engine_.now >= debt.by();
  }

 private:
  [[nodiscard]] bool send_nak(QueuePair& qp) noexcept;
  uint32_t send_strict(QueuePair& qp, bool& done) noexcept;
  uint32_t send_selective(QueuePair& qp, bool& done) noexcept;
  [[nodiscard]] static size_t fill_blocks(QueuePair& qp, uint64_t& next,
                                          std::span<std::byte> blocks) noexcept;
  [[nodiscard]] AckBody cumulative(QueuePair& qp) const noexcept;

  Engine& engine_;
  CellWriter& writer_;
};

}  // namespace weft::adapter
