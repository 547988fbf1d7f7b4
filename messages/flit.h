// messages/flit.h -- LAY-FLIT: the unit of a link, counted by credits. Lives between two link partners only.
//
//   0 kind 7..4, VL 3..0   1 flags   2 payload bytes 16   4 link sequence 16   6 highest sequence received in
//   order 16 8 VL of the credit     9 zero   10 credit total 16   12 CRC 32 over 0..11 and the payload   16
//   payload
//
// When one flit carries a whole cell, the CRC covers bytes 0..11 and the cell's own CRC instead of the
// payload: the cell is hashed once per process (decisions 1.13, P1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

inline constexpr uint32_t kFlitHeaderBytes = 16;
/// Payload of the conformance profile: a 512-byte Send gives the worked example of SAN-FLIT-07.
inline constexpr uint32_t kFlitPayloadBytesConformance = 96;

enum class FlitKind : uint8_t { kData = 0, kAck = 1, kRepeat = 2, kCredit = 3 };
enum FlitFlag : uint8_t {
  kFlitHead = 0x80,
  kFlitTail = 0x40,
  kFlitPoison = 0x20,  // the rest of this cell will not come: drop what arrived (decisions 2.7)
};

struct FlitHeader {
  uint8_t kind_vl;
  uint8_t flags;
  Be16 payload_bytes;
  Be16 sequence;
  Be16 acknowledged;
  uint8_t credit_vl;
  uint8_t zero;
  Be16 credit;
  Be32 crc;
};
static_assert(sizeof(FlitHeader) == kFlitHeaderBytes && alignof(FlitHeader) == 1);
static_assert(std::is_trivially_copyable_v<FlitHeader>);
static_assert(offsetof(FlitHeader, payload_bytes) == 2 && offsetof(FlitHeader, sequence) == 4 &&
              offsetof(FlitHeader, acknowledged) == 6 && offsetof(FlitHeader, credit_vl) == 8 &&
              offsetof(FlitHeader, credit) == 10 && offsetof(FlitHeader, crc) == 12);

}  // namespace weft
