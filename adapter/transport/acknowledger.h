// adapter/transport/acknowledger.h -- when and how the responder acknowledges (decisions 2.3, 2.4). ACKs cost
// no queue: their content is the responder's state at the moment they are sent, so the newest wins. Only
// strict mode keeps a list, one entry per cell.
#pragma once

#include "adapter/engine.h"
#include "adapter/transport/segmenter.h"

namespace weft::adapter {

/// Remembers a NAK to be sent; one that ends the connection is not replaced by a lesser one.
void set_nak(QueuePair& qp, AckCode code, Psn psn, uint16_t cell) noexcept;
/// Strict mode: the cell gets an ACK of its own. True in selective mode; false when the list is full.
bool add_strict_ack(QueuePair& qp, Psn psn, uint16_t cell) noexcept;
[[nodiscard]] bool strict_acks_full(const QueuePair& qp) noexcept;

class Acknowledger {
 public:
  Acknowledger(Engine& engine, Segmenter& segmenter) noexcept : engine_(engine), segmenter_(segmenter) {}

  /// Sends what `qp` owes if it is due. Returns cells sent; `done` is false while something is still owed.
  uint32_t run(QueuePair& qp, bool& done) noexcept;
  /// Something is to be said now.
  [[nodiscard]] bool due(const QueuePair& qp) const noexcept {
    const ReceiveSide& rx = qp.rx;
    return rx.ack_now || rx.nak != AckCode::kAck || qp.config.ack_mode == AckMode::kStrict ||
           engine_.now >= rx.ack_at;
  }

 private:
  [[nodiscard]] bool send_nak(QueuePair& qp) noexcept;
  uint32_t send_strict(QueuePair& qp, bool& done) noexcept;
  uint32_t send_selective(QueuePair& qp, bool& done) noexcept;
  [[nodiscard]] static size_t fill_blocks(QueuePair& qp, uint64_t& next,
                                          std::span<std::byte> blocks) noexcept;
  [[nodiscard]] AckBody cumulative(QueuePair& qp) const noexcept;

  Engine& engine_;
  Segmenter& segmenter_;
};

}  // namespace weft::adapter
