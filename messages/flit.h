// messages/flit.h -- LAY-FLIT: the unit of a link, counted by credits. It exists only between two link
// partners.
//
//   0 kind 7..4, VL 3..0   1 flags   2 payload bytes 16   4 link sequence 16
//   6 highest sequence received in order 16   8 VL of the credit   9 zero   10 credit total 16
//   12 CRC 32 over 0..11 and the payload   16 payload
//
// If each flit carries a whole cell, the CRC covers bytes 0..11 and the cell's own CRC instead of the
// payload, so that each process hashes the cell once (decisions 1.13, P1).
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
  kFlitAnswer = 0x10,  // flits without data: answer at once with an ack and all credits
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

/// Why a flit was refused. kTooShort to kCellCrc look like damage on the way, and the flit is repeated. The
/// others come with a correct CRC, so the peer broke the protocol.
enum class FlitError : uint8_t {
  kNone,
  kTooShort,
  kLength,  // payload size impossible for this link
  kCrc,
  kCellCrc,  // whole-cell links: the header is valid, the cell's CRC is wrong
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

/// The parameters that both ends of a link agreed on, as far as they determine a flit's form.
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

/// Checks size, CRC, kind, reserved bits, lanes and flags; reads each header byte once. The CRC costs one
/// pass over the payload; in whole-cell links that pass checks the cell's CRC, which the flit CRC covers.
/// `out` is set on kNone, and without payload on kCellCrc. SAN-FLIT-03.
[[nodiscard]] FlitError decode_flit(std::span<const std::byte> flit, const FlitProfile& profile,
                                    FlitView& out) noexcept;

/// The two header words in host order; the CRC in the second is zero.
[[nodiscard]] inline std::array<uint64_t, 2> flit_words(const FlitFields& fields) noexcept {
  return {static_cast<uint64_t>(fields.kind) << 60 | uint64_t{fields.vl.value()} << 56 |
              uint64_t{fields.flags} << 48 | uint64_t{fields.payload_bytes} << 32 |
              uint64_t{fields.sequence} << 16 | uint64_t{fields.acknowledged},
          uint64_t{fields.credit_vl.value()} << 56 | uint64_t{fields.credit} << 32};
}

/// CRC of a whole-cell data flit, over header bytes 0..11 and the cell's CRC, from registers. The low half of
/// `word1` is ignored.
[[nodiscard]] inline uint32_t cell_flit_crc(uint64_t word0, uint64_t word1, uint32_t cell_crc) noexcept {
  return crc32c_words(0, to_big(word0), to_big((word1 & 0xFFFF'FFFF'0000'0000ULL) | cell_crc));
}

/// Writes the header of a data flit of a whole-cell link. The payload, whose CRC is `cell_crc`, is not read.
/// Inline, so that fields in the caller's registers stay there (decisions P2).
inline void compose_cell_flit(std::byte* to, const FlitFields& fields, uint32_t cell_crc) noexcept {
  const auto [word0, word1] = flit_words(fields);
  store_be(to, word0);
  store_be(to + 8, word1 | cell_flit_crc(word0, word1, cell_crc));
}

/// Writes the header of a flit whose payload, if any, is already behind it. `cell_crc` is the cell's CRC and
/// is used only for data flits of whole-cell links, whose payload is not read.
void compose_flit(std::byte* to, const FlitFields& fields, bool whole_cell, uint32_t cell_crc) noexcept;

}  // namespace weft
