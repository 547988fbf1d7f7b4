// adapter/supplies.h -- memory that the tables of an adapter may need next, taken beforehand by a thread that
// no caller waits for. An adapter without supplies takes memory itself, when it needs it.
#pragma once

#include <cstdint>

#include "adapter/memory/tpt_entries.h"
#include "adapter/queues/packet_window.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// Bits of what an adapter lacks.
enum SupplyKind : uint32_t {
  kSupplyKeys = 1 << 0,        // entries of regions and windows
  kSupplyTxPackets = 1 << 1,   // chunks of windows, of requesters
  kSupplyRxPackets = 1 << 2,   // and of responders
  kSupplyStrictAcks = 1 << 3,  // acknowledgements of strict mode that wait
};

struct Supplies {
  /// Takes memory for these kinds. Anybody may, at any time.
  explicit Supplies(uint32_t kinds);

  TptEntries::Room keys;
  ChunkPool<TxPacket>::Memory tx_packets;
  ChunkPool<RxPacket>::Memory rx_packets;
  StrictAckPool::Memory strict_acks;
};

}  // namespace weft::adapter
