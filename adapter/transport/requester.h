// adapter/transport/requester.h -- executes the send queue in order: WQEs without data at once, messages as
// packets and cells within the packet window, the byte window and the carrier's credit.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/completer.h"
#include "adapter/transport/send_head.h"

namespace weft::adapter {

class Requester {
 public:
  Requester(Engine& engine, CellWriter& writer, Completer& completer) noexcept
      : engine_(engine), writer_(writer), completer_(completer), head_(engine, writer, completer) {}

  /// Sends up to `budget` cells of `qp`; returns how many. Sets `blocked` when credit or slots ran out.
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept;
  /// RD: executes WQEs without data and makes one packet; sends nothing.
  void prepare_packet(QueuePair& qp) noexcept;
  /// True while run() can do something without waiting for an acknowledgement or a timer.
  [[nodiscard]] bool has_work(const QueuePair& qp) const noexcept;

 private:
  // Result of taking the next WQE. kPacket: a packet was made; kAgain: look at the next WQE.
  enum class Step : uint8_t { kPacket, kAgain, kStop };
  [[nodiscard]] Step next_packet(QueuePair& qp) noexcept;
  [[nodiscard]] bool may_execute(const QueuePair& qp) const noexcept;
  [[nodiscard]] uint32_t next_bytes(const QueuePair& qp, const SendWqe& wqe) const noexcept;
  [[nodiscard]] bool check_window(const QueuePair& qp, const SendWqe& wqe, uint32_t bytes) const noexcept;
  [[nodiscard]] bool start_message(QueuePair& qp, SendWqe& wqe) noexcept;
  [[nodiscard, gnu::cold]] Step find_no_memory(QueuePair& qp, SendWqe& wqe) noexcept;
  void make_packet(QueuePair& qp, SendWqe& wqe, uint32_t bytes) noexcept;
  [[nodiscard]] uint32_t packet_limit(const QueuePair& qp, const SendWqe& wqe) const noexcept;
  [[gnu::cold, nodiscard]] SendFault unsendable(QueuePair& qp, uint64_t wqe, CellSent result) noexcept;
  uint32_t send_pending(QueuePair& qp, uint64_t number, uint32_t budget, bool& blocked) noexcept;

  Engine& engine_;
  CellWriter& writer_;
  Completer& completer_;
  SendHead head_;
};

}  // namespace weft::adapter
