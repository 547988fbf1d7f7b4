// adapter/transport/direct/direct_responder.h -- executes the records of a peer's QP in their order:
// receives, writes and reads through the owner, atomic operations (NTB-RECV-01). Answers them.
#pragma once

#include <cstdint>
#include <span>

#include "adapter/transport/cell_writer.h"
#include "adapter/transport/direct/direct_keys.h"
#include "adapter/transport/direct/direct_outlet.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

class DirectResponder {
 public:
  DirectResponder(Engine& engine, CellWriter& writer, DirectOutlet& outlet, DirectKeys& keys) noexcept
      : engine_(engine), outlet_(outlet), keys_(keys), placement_(engine, writer) {}

  /// Takes a request of the bound peer.
  void take(QueuePair& qp, const WindowRecord& record, std::span<const std::byte> data) noexcept;
  /// Sends what the QP owes its peer: readiness, answers of reads, a refusal. False when the FIFO is full.
  bool pay(QueuePair& qp) noexcept { return !owes(qp) || pay_debts(qp); }
  /// Sends the acknowledgement alone. False when the FIFO is full.
  [[nodiscard]] bool acknowledge(QueuePair& qp) noexcept;
  /// DMA of a record that is no request has failed. `response`: it was a part of one.
  void record_lost(QueuePair& qp, bool response) noexcept;
  /// What the QP grants its peer.
  [[nodiscard]] uint8_t grants_of(const QueuePair& qp) const noexcept;

 private:
  /// Something must leave before requests do.
  [[nodiscard]] static bool owes(const QueuePair& qp) noexcept {
    const DirectQp& direct = direct_of(qp);
    const bool silent = direct.told_gone || qp.abilities().receive;
    return direct.owes_ready || direct.owes_nak || direct.fault != ResponderFault::kNone ||
           !qp.rx.reads.empty() || qp.answers || !silent;
  }
  [[nodiscard]] bool pay_debts(QueuePair& qp) noexcept;
  [[nodiscard]] bool take_at_once(QueuePair& qp, const WindowRecord& record,
                                  std::span<const std::byte> data) noexcept;
  [[gnu::noinline]] void take_in_steps(QueuePair& qp, const WindowRecord& record,
                                       std::span<const std::byte> data) noexcept;
  static void describe(DirectQp& direct, const WindowRecord& record) noexcept;
  [[nodiscard]] ResponderFault begin(QueuePair& qp, const WindowRecord& record) noexcept;
  void take_data(QueuePair& qp, const WindowRecord& record, std::span<const std::byte> data) noexcept;
  void take_read(QueuePair& qp, const WindowRecord& record) noexcept;
  void take_refused(QueuePair& qp, const WindowRecord& record) noexcept;
  void take_atomic(QueuePair& qp, const WindowRecord& record, std::span<const std::byte> data) noexcept;
  void finish(QueuePair& qp, const WindowRecord& record) noexcept;
  void executed(QueuePair& qp, const WindowRecord& record) noexcept;
  void count_executed(QueuePair& qp, const WindowRecord& record) noexcept;
  void answer_later(QueuePair& qp, const ReadJob& job) noexcept;
  [[nodiscard]] bool send_responses(QueuePair& qp) noexcept;
  [[nodiscard]] bool send_response(QueuePair& qp, ReadJob& job, bool& failed) noexcept;
  [[nodiscard]] bool send_nak(QueuePair& qp) noexcept;
  [[nodiscard]] bool send_gone(QueuePair& qp) noexcept;
  void not_ready(QueuePair& qp) noexcept;
  void refuse(QueuePair& qp, ResponderFault fault, uint64_t bytes) noexcept;
  void answer_refusal(QueuePair& qp) noexcept;

  Engine& engine_;
  DirectOutlet& outlet_;
  DirectKeys& keys_;
  Placement placement_;
};

}  // namespace weft::adapter
