// messages/transport_headers.h -- layouts in a cell's payload: read requests (LAY-READ), FetchOp requests
// (LAY-FETCH), and the selective blocks of an ACK (decisions 2.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

/// LAY-READ: payload of an RDMA read request. The sink key belongs to the requester, the source key to the
/// responder.
struct ReadRequestWire {
  Be32 sink_key;
  Be64 sink_address;
  Be32 length;
  Be32 source_key;
  Be64 source_address;
  Be32 message_sequence;
};
static_assert(sizeof(ReadRequestWire) == 32 && alignof(ReadRequestWire) == 1);
static_assert(std::is_trivially_copyable_v<ReadRequestWire>);
static_assert(offsetof(ReadRequestWire, sink_address) == 4 && offsetof(ReadRequestWire, length) == 12 &&
              offsetof(ReadRequestWire, source_key) == 16 &&
              offsetof(ReadRequestWire, source_address) == 20 &&
              offsetof(ReadRequestWire, message_sequence) == 28);

/// LAY-FETCH: payload of a FetchOp request. The response's payload is the old value, 64 bits.
struct FetchRequestWire {
  Be64 address;
  Be32 key;
  uint8_t operation;  // FetchOp
  uint8_t operand_bytes;
  Be16 zero;
  Be64 compare;
  Be64 operand;
};
static_assert(sizeof(FetchRequestWire) == 32 && alignof(FetchRequestWire) == 1);
static_assert(std::is_trivially_copyable_v<FetchRequestWire>);
static_assert(offsetof(FetchRequestWire, key) == 8 && offsetof(FetchRequestWire, operation) == 12 &&
              offsetof(FetchRequestWire, operand_bytes) == 13 && offsetof(FetchRequestWire, zero) == 14 &&
              offsetof(FetchRequestWire, compare) == 16 && offsetof(FetchRequestWire, operand) == 24);

/// Operations of a FetchOp request that are offered, on operands of eight bytes.
enum class FetchOp : uint8_t { kCompareSwap = 1, kFetchAdd = 2 };
inline constexpr uint32_t kFetchOperandBytes = 8;

/// One selective block of an ACK: bit i set = cell `base_cell + i` of packet `psn` has arrived. At most
/// three.
struct SelectiveBlockWire {
  Be32 psn;
  Be16 base_cell;
  Be16 zero;
  Be64 bitmap;
};
static_assert(sizeof(SelectiveBlockWire) == 16 && offsetof(SelectiveBlockWire, bitmap) == 8);
inline constexpr uint32_t kSelectiveBlocksMax = 3;

/// What a ways cell says about the way by which it comes: the ports of sender and receiver.
enum class WaysKind : uint8_t {
  kAsk = 1,     // answer by this way
  kAnswer = 2,  // this way works
  kUse = 3,     // the sender's queue pair uses this way from now on
};
inline constexpr uint32_t kWaysLidsMax = 4;

/// Behind the ACK body of a ways cell (Opcode::kWays): the LIDs of the sender's computer.
struct WaysWire {
  uint8_t zero;
  uint8_t kind;  // WaysKind
  Be16 moves;    // how often the connection has changed its way, as the sender knows
  Be32 zero2;
  Be16 lids[kWaysLidsMax];  // one for each port; 0: none
};
static_assert(sizeof(WaysWire) == sizeof(SelectiveBlockWire) && alignof(WaysWire) == 1);
static_assert(offsetof(WaysWire, moves) == 2 && offsetof(WaysWire, lids) == 8);

}  // namespace weft
