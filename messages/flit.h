// messages/flit.h -- LAY-FLIT: the unit of a link, counted by credits. Lives between two link partners only.
//
//   0 kind 7..4, VL 3..0   1 flags   2 payload bytes 16   4 link sequence 16
//   6 highest sequence received in order 16   8 VL of the credit   9 zero   10 credit total 16
//   12 CRC 32 over 0..11 and the payload   16 payload
//
// When one flit carries a whole cell, the CRC covers bytes 0..11 and the cell's own CRC instead of the
// payload: the cell is hashed once per process (decisions 1.13, P1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/ids.h"

namespace weft {

inline constexpr uint32_t kFlitHeaderBytes = 16;
/// Payload of the conformance profile: a 512-byte Send gives the worked example of SAN-FLIT-07.
inline constexpr uint32_t kFlitPayloadBytesConformance = 96;
/// A head flit holds the cell header, which a switch needs whole.
inline constexpr uint32_t kFlitPayloadBytesMin = 64;

enum class FlitKind : uint8_t { kData = 0, kAck = 1, kRepeat = 2, kCredit = 3 };
enum FlitFlag : uint8_t {
  kFlitHead = 0x80,
  kFlitTail = 0x40,
  kFlitPoison = 0x20,  // the rest of this cell will not come: drop what arrived (decisions 2.7)
  kFlitAnswer = 0x10,  // unsequenced flits: answer with an ack and all credits at once
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

/// Why a flit was refused. The first four look like damage on the way: the flit is repeated. The others
/// stand behind a right CRC, so the peer broke the protocol.
enum class FlitError : uint8_t {
  kNone,
  kTooShort,
  kLength,  // payload size impossible for this link
  kCrc,
  kCellCrc,  // whole-cell links: the header is good, the cell in it is not
  kKind,
  kReserved,  // a reserved bit or byte is not zero
  kLane,      // lane or credit lane that this link does not have
  kFlags,     // flags that this kind of flit or link cannot have
  kCount,
};
[[nodiscard]] std::string_view to_string(FlitError error) noexcept;
[[nodiscard]] constexpr bool is_damage(FlitError error) noexcept {
  return error <= FlitError::kCellCrc;
}

/// What both ends of a link agreed on, as far as a flit's form goes.
struct FlitProfile {
  uint32_t payload_bytes_max = 0;
  uint32_t lanes = 0;      // data lanes
  bool whole_cell = true;  // each data flit is a whole cell; its CRC covers the cell's own CRC
};

/// Header fields in host order.
struct FlitFields {
  FlitKind kind = FlitKind::kData;
  VirtualLane vl{};
  uint8_t flags = 0;  // FlitFlag
  uint16_t payload_bytes = 0;
  uint16_t sequence = 0;  // data: its own number; otherwise the number of the last data flit sent before it
  uint16_t acknowledged = 0;  // highest number received in order
  VirtualLane credit_vl{};
  uint16_t credit = 0;  // flit buffers given back on credit_vl since the link came up, modulo 2^16

  bool operator==(const FlitFields&) const = default;
};

/// A checked flit: fields in private memory, payload in place.
struct FlitView {
  FlitFields fields;
  uint32_t cell_crc = 0;  // whole-cell data flits: the verified CRC of the cell
  std::span<const std::byte> payload;
};

/// Checks size, CRC (one pass over the payload: in whole-cell links the cell's CRC, which the flit CRC
/// covers), kind, reserved bits, lanes and flags, reading each header byte once. `out` is set only on kNone
/// and, without payload, on kCellCrc. SAN-FLIT-03.
[[nodiscard]] FlitError decode_flit(std::span<const std::byte> flit, const FlitProfile& profile,
                                    FlitView& out) noexcept;

/// The header's first word and its second one with the CRC still zero, in host order.
[[nodiscard]] inline std::array<uint64_t, 2> flit_words(const FlitFields& fields) noexcept {
  return {static_cast<uint64_t>(fields.kind) << 60 | uint64_t{fields.vl.value()} << 56 |
              uint64_t{fields.flags} << 48 | uint64_t{fields.payload_bytes} << 32 |
              uint64_t{fields.sequence} << 16 | uint64_t{fields.acknowledged},
          uint64_t{fields.credit_vl.value()} << 56 | uint64_t{fields.credit} << 32};
}

/// CRC of a whole-cell data flit: over header bytes 0..11 and the cell's CRC, from registers. The low half of
/// `word1` does not count.
[[nodiscard]] inline uint32_t cell_flit_crc(uint64_t word0, uint64_t word1, uint32_t cell_crc) noexcept {
  return crc32c_words(0, to_big(word0), to_big((word1 & 0xFFFF'FFFF'0000'0000ULL) | cell_crc));
}

/// Writes the header of a data flit of a whole-cell link; the payload, whose CRC is `cell_crc`, is not read.
/// Inline: fields that the caller has in registers stay there (decisions P2).
inline void compose_cell_flit(std::byte* to, const FlitFields& fields, uint32_t cell_crc) noexcept {
  const auto [word0, word1] = flit_words(fields);
  store_be(to, word0);
  store_be(to + 8, word1 | cell_flit_crc(word0, word1, cell_crc));
}

/// Writes the header of a flit whose payload, if any, already stands behind it. `cell_crc` is the cell's CRC
/// and counts only for data flits of whole-cell links, whose payload is not read.
void compose_flit(std::byte* to, const FlitFields& fields, bool whole_cell, uint32_t cell_crc) noexcept;

}  // namespace weft
