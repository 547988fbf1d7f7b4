// adapter/transport/raw/raw_service.h -- RAW: frames without transport headers, and IPv6 packets
// (SAN-XPORT-15, 16). A frame is received like a datagram.
#pragma once

#include "adapter/transport/packet_service.h"
#include "adapter/transport/unreliable/unreliable_responder.h"

namespace weft::adapter {

extern const ServiceRow kRawRow;

class RawService final : public PacketService {
 public:
  RawService(Engine& engine, CellWriter& writer) noexcept
      : PacketService(engine, writer), responder_(engine, writer) {}

  void take(QueuePair& qp, const CellView& cell) noexcept override;

 private:
  UnreliableResponder responder_;
};

}  // namespace weft::adapter
