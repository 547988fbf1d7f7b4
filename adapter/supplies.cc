#include "adapter/supplies.h"

namespace weft::adapter {

Supplies::Supplies(uint32_t kinds) {
  if ((kinds & kSupplyKeys) != 0) keys = TptEntries::make_room();
  if ((kinds & kSupplyTxPackets) != 0) tx_packets = ChunkPool<TxPacket>::make();
  if ((kinds & kSupplyRxPackets) != 0) rx_packets = ChunkPool<RxPacket>::make();
  if ((kinds & kSupplyStrictAcks) != 0) strict_acks = StrictAckPool::make();
}

}  // namespace weft::adapter
