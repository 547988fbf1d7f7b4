// adapter/transport/unreliable/unreliable_service.h -- UC and UD: a request ends when it has left.
#pragma once

#include "adapter/transport/packet_service.h"
#include "adapter/transport/unreliable/unreliable_responder.h"

namespace weft::adapter {

extern const ServiceRow kUcRow;
extern const ServiceRow kUdRow;

class UnreliableService final : public PacketService {
 public:
  UnreliableService(Engine& engine, CellWriter& writer) noexcept
      : PacketService(engine, writer), engine_(engine), responder_(engine, writer) {}

  void take(QueuePair& qp, const CellView& cell) noexcept override;
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override;
  [[nodiscard]] bool has_work(const QueuePair& qp) const noexcept override;
  void forget(QueuePair& qp) noexcept override;

 private:
  Engine& engine_;
  UnreliableResponder responder_;
};

}  // namespace weft::adapter
