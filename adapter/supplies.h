// adapter/supplies.h -- memory for the next growth of an adapter's tables, taken beforehand by a thread for
// which no caller waits. An adapter without supplies allocates when it needs memory.
#pragma once

#include <cstdint>

#include "adapter/memory/tpt_entries.h"
#include "adapter/queues/packet_window.h"
#include "adapter/queues/queue_pair.h"

namespace weft::adapter {

/// Kinds of supplies, as bits.
enum SupplyKind : uint32_t {
  kSupplyKeys = 1 << 0,        // entries of regions and windows
  kSupplyTxPackets = 1 << 1,   // chunks of requesters' packet windows
  kSupplyRxPackets = 1 << 2,   // chunks of responders' packet windows
  kSupplyStrictAcks = 1 << 3,  // waiting acknowledgements of strict mode
};

struct Supplies {
  /// Takes memory for these kinds. Any thread may call this at any time.
  explicit Supplies(uint32_t kinds);

  TptEntries::Room keys;
  ChunkPool<TxPacket>::Memory tx_packets;
  ChunkPool<RxPacket>::Memory rx_packets;
  StrictAckPool::Memory strict_acks;
};

}  // namespace weft::adapter
