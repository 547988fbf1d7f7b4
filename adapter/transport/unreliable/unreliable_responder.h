// adapter/transport/unreliable/unreliable_responder.h -- the receiving half of UC, UD and RAW: no
// acknowledgements and no stash. A message that does not fit is dropped and counted. A UC QP receives again
// from the beginning of the next message.
#pragma once

#include "adapter/adapter_engine.h"
#include "adapter/transport/cell_writer.h"
#include "adapter/transport/placement.h"

namespace weft::adapter {

class UnreliableResponder {
 public:
  UnreliableResponder(Engine& engine, CellWriter& writer) noexcept
      : engine_(engine), placement_(engine, writer) {}

  /// Takes a cell from the bound peer of a UC QP.
  void take_connected(QueuePair& qp, const CellView& cell) noexcept;
  /// Takes a cell for a UD or RAW QP.
  void take_datagram(QueuePair& qp, const CellView& cell) noexcept;

 private:
  [[nodiscard]] bool check_turn(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault open_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault continue_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault finish_packet(QueuePair& qp, const CellView& cell) noexcept;
  [[nodiscard]] ResponderFault place_datagram(QueuePair& qp, RxPacket& packet, const CellView& cell) noexcept;
  [[nodiscard]] uint16_t pkey_index_of(const QueuePair& qp, const CellView& cell) const noexcept;
  /// Gives the message in progress up. Reception restarts with the next message.
  void abandon(QueuePair& qp, uint64_t packets) noexcept;

  Engine& engine_;
  Placement placement_;
};

}  // namespace weft::adapter
