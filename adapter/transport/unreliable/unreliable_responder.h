// adapter/transport/unreliable/unreliable_responder.h -- the receiving half of UC, UD and RAW: no
// acknowledgement, nothing held back. What does not fit is dropped and counted; a UC QP picks up again where
// a message begins.
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

class UnreliableResponder {
 public:
  UnreliableResponder(Engine& engine, CellWriter& writer) noexcept
      : engine_(engine), placement_(engine, writer) {}

  /// A cell from the bound peer of a UC QP.
  void take_connected(QueuePair& qp, const CellView& cell) noexcept;
  /// A cell to a UD or RAW QP.
  void take_datagram(QueuePair& qp, const CellView& cell) noexcept;

 private:
  [[nodiscard]] bool check_turn(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault open_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault continue_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault finish_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault place_datagram(QueuePair& qp, RxPacket& packet, const CellView& cell) noexcept;
  [[nodiscard]] uint16_t pkey_index_of(const QueuePair& qp, const CellView& cell) const noexcept;
  /// The message under way is lost; the next one that begins is taken.
  void abandon(QueuePair& qp, uint64_t packets) noexcept;

  Engine& engine_;
  Placement placement_;
};

}  // namespace weft::adapter
