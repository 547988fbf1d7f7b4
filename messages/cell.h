// messages/cell.h -- LAY-CELL: the routed unit. Endnodes make and consume it; switches forward it unopened.
//
//   0  destination address 48 (0x0200, subnet 16, LID 16)      6 source address 48
//   12 version 8   13 operation 8   14 flags 8   15 SL 7..4, VL 3..0
//   16 P_Key 15..8, destination QPN 24     20 P_Key 7..0, source QPN 24
//   24 flags2 8    25 PSN 24               28 cell number 16   30 payload bytes 16
//   32 [GLOBAL: 40-byte IPv6-shaped header] [VA 64, MH 32] [UD, RD: Q_Key 32, P_Key 16, 0 16]
//      [XRC: 0 8, SRQ number 24] [idata 32]
//      [ACK, NAK: 12-byte body] data [packet CRC 32] cell CRC 32
//
// docs/wire_format.md has the picture and a worked example.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>

#include "base/crc32c.h"
#include "base/endian.h"
#include "base/registers.h"
#include "messages/ids.h"
#include "messages/opcode.h"

namespace weft {

inline constexpr uint8_t kCellVersion = 1;
inline constexpr uint16_t kAddressPrefix = 0x0200;
inline constexpr uint32_t kCellHeaderBytes = 32;
inline constexpr uint32_t kGlobalHeaderBytes = 40;
inline constexpr uint32_t kVaBytes = 12;
inline constexpr uint32_t kIdataBytes = 4;
inline constexpr uint32_t kDatagramHeaderBytes = 8;
inline constexpr uint32_t kXrcHeaderBytes = 4;
inline constexpr uint32_t kSrqNumberMask = 0xFFFFFF;
inline constexpr uint32_t kCrcBytes = 4;
inline constexpr uint32_t kAckBodyBytes = 12;
inline constexpr uint32_t kCellPayloadBytesMin = 256;   // decisions 1.14
inline constexpr uint32_t kCellPayloadBytesMax = 8192;  // design §4, O-03
/// A packet has at most 64 cells: one uint64_t of cell bits on both sides (decisions 2.3).
inline constexpr uint32_t kCellsPerPacketMax = 64;
/// Most bytes around the payload.
static_assert(kXrcHeaderBytes <= kDatagramHeaderBytes, "no cell has both");
inline constexpr uint32_t kCellOverheadBytesMax =
    kCellHeaderBytes + kGlobalHeaderBytes + kVaBytes + kIdataBytes + kDatagramHeaderBytes + 2 * kCrcBytes;
[[nodiscard]] constexpr uint32_t cell_bytes_max(uint32_t payload_bytes) noexcept {
  return payload_bytes + kCellOverheadBytesMax;
}

enum CellFlag : uint8_t {
  kCellFirst = 0x80,
  kCellLast = 0x40,
  kCellGlobal = 0x20,
  kCellVa = 0x10,
  kCellIdata = 0x08,
  kCellPacketCrc = 0x04,
  kCellAckWanted = 0x02,
  kCellInvalidateKey = 0x01,
};
enum CellFlag2 : uint8_t {
  kCell2More = 0x80,        // more packets of this message follow (decisions 2.2)
  kCell2Solicited = 0x40,   // raise a solicited event at the receiver
  kCell2Continues = 0x20,   // not the first packet of its message; an unacknowledged QP cannot begin here
  kCell2MayMigrate = 0x10,  // connected services: the sender has an alternate path and does not use it yet
};
/// The flags that are equal in all cells of a packet.
inline constexpr uint8_t kCell2OfPacket = kCell2More | kCell2Solicited | kCell2Continues;

/// The first 32 bytes, for tests and tools that read single fields. The data path uses 64-bit words (P2).
struct CellHeader {
  Be16 dest_prefix;
  Be16 dest_subnet;
  Be16 dlid;
  Be16 src_prefix;
  Be16 src_subnet;
  Be16 slid;
  uint8_t version;
  uint8_t opcode;
  uint8_t flags;
  uint8_t sl_vl;
  Be32 dest_qpn;
  Be32 src_qpn;
  Be32 flags2_psn;
  Be16 cell_number;
  Be16 payload_bytes;
};
static_assert(sizeof(CellHeader) == kCellHeaderBytes && alignof(CellHeader) == 1);
static_assert(std::is_trivially_copyable_v<CellHeader>);
static_assert(offsetof(CellHeader, dlid) == 4 && offsetof(CellHeader, slid) == 10 &&
              offsetof(CellHeader, version) == 12 && offsetof(CellHeader, sl_vl) == 15 &&
              offsetof(CellHeader, dest_qpn) == 16 && offsetof(CellHeader, flags2_psn) == 24 &&
              offsetof(CellHeader, cell_number) == 28 && offsetof(CellHeader, payload_bytes) == 30);

/// The header as a switch reads it, without decoding: four words, read once. A peer that can still write to
/// the cell's memory changes neither the checked words nor the words that store() writes (house style 13).
class CellHead {
 public:
  CellHead() = default;
  /// `cell` must have at least kCellHeaderBytes bytes.
  explicit CellHead(const std::byte* cell) noexcept
      : words_{load_once<uint64_t>(cell), load_once<uint64_t>(cell + 8), load_once<uint64_t>(cell + 16),
               load_once<uint64_t>(cell + 24)} {}

  [[nodiscard]] Lid dlid() const noexcept { return Lid(static_cast<uint16_t>(word(0) >> 16)); }
  [[nodiscard]] Lid slid() const noexcept { return Lid(static_cast<uint16_t>(word(1) >> 32)); }
  [[nodiscard]] SubnetId dest_subnet() const noexcept {
    return SubnetId(static_cast<uint16_t>(word(0) >> 32));
  }
  [[nodiscard]] SubnetId source_subnet() const noexcept {
    return SubnetId(static_cast<uint16_t>(word(1) >> 48));
  }
  /// Both addresses begin with kAddressPrefix.
  [[nodiscard]] bool prefixes_fit() const noexcept {
    return (word(0) >> 48) == kAddressPrefix && (word(0) & 0xFFFF) == kAddressPrefix;
  }
  [[nodiscard]] uint8_t version() const noexcept { return static_cast<uint8_t>(word(1) >> 24); }
  [[nodiscard]] uint8_t opcode() const noexcept { return static_cast<uint8_t>(word(1) >> 16); }
  [[nodiscard]] VirtualLane vl() const noexcept { return VirtualLane(static_cast<uint8_t>(word(1) & 0x0F)); }
  [[nodiscard]] Qpn dest_qpn() const noexcept { return Qpn(static_cast<uint32_t>(word(2) >> 32) & kQpnMask); }
  [[nodiscard]] Qpn source_qpn() const noexcept { return Qpn(static_cast<uint32_t>(word(2)) & kQpnMask); }
  /// In the form that make_cell_template() takes.
  [[nodiscard]] uint16_t pkey() const noexcept {
    const auto wire = static_cast<uint16_t>(word(2) >> 56 << 8 | (word(2) >> 24 & 0xFF));
    return wire == 0 ? kPkeyDefault : wire;
  }
  [[nodiscard]] uint8_t flags() const noexcept { return static_cast<uint8_t>(word(1) >> 8); }
  [[nodiscard]] ServiceLevel sl() const noexcept {
    return ServiceLevel(static_cast<uint8_t>(word(1) >> 4 & 0x0F));
  }
  [[nodiscard]] Psn psn() const noexcept { return Psn(static_cast<uint32_t>(word(3) >> 32) & Psn::kMask); }

  /// Word 0 to 3 in host order.
  [[nodiscard]] uint64_t word(size_t index) const noexcept { return to_big(words_[index]); }
  /// True for two cells that differ at most in PSN, cell number, length and second flags: all in word 3.
  [[nodiscard]] bool same_kind(const CellHead& other) const noexcept {
    return ((words_[0] ^ other.words_[0]) | (words_[1] ^ other.words_[1]) | (words_[2] ^ other.words_[2])) ==
           0;
  }
  /// True for two cells with the same source, destination, partition, lane and service level, whatever they
  /// ask for.
  [[nodiscard]] bool same_ends(const CellHead& other) const noexcept {
    const uint64_t ends = to_big(~uint64_t{0xFFFF00});  // without operation and flags
    return ((words_[0] ^ other.words_[0]) | ((words_[1] ^ other.words_[1]) & ends) |
            (words_[2] ^ other.words_[2])) == 0;
  }

  /// Writes the kCellHeaderBytes bytes as they were read.
  void store(std::byte* to) const noexcept {
    for (size_t i = 0; i < std::size(words_); ++i) {
      const uint64_t whole = in_register(words_[i]);
      std::memcpy(to + i * sizeof whole, &whole, sizeof whole);
    }
  }

 private:
  uint64_t words_[4];  // in memory order
};
static_assert(sizeof(CellHead) == kCellHeaderBytes);

/// Why a cell was refused. Each reason has its own counter.
enum class CellError : uint8_t {
  kNone,
  kTooShort,
  kVersion,
  kReserved,  // a reserved bit or byte is not zero
  kAddress,   // prefix is not 0x0200, or a LID is 0 or 0xFFFF
  kOpcode,
  kFlags,       // flags that this operation cannot have
  kLength,      // length field and cell size disagree
  kCellNumber,  // FIRST not in cell 0, or number beyond 63
  kCrc,
  kCount,
};
[[nodiscard]] std::string_view to_string(CellError error) noexcept;

enum class AckCode : uint8_t {  // LAY-ACK
  kAck = 0,
  kSequenceError = 1,
  kReceiverNotReady = 2,
  kRemoteAccess = 3,
  kNotSupported = 4,
  kRemoteOperation = 5,
  kPacketCrc = 6,
  kStandsStill = 7,  // sent by a switch for an endnode that takes no cells; acknowledges nothing
  kCount,
};

/// The 12 bytes of LAY-ACK before the selective blocks.
struct AckBody {
  Psn psn{};  // cumulative, inclusive (decisions 2.3)
  uint16_t cell_number = 0;
  AckCode code = AckCode::kAck;
  uint32_t messages_completed = 0;
};

/// Size of a cell with an ACK body and nothing else.
inline constexpr uint32_t kNakCellBytes = kCellHeaderBytes + kAckBodyBytes + kCrcBytes;

/// A checked cell: header fields in private memory, payload in place.
struct CellView {
  SubnetId dest_subnet{};
  SubnetId src_subnet{};
  Lid dlid{};
  Lid slid{};
  Opcode opcode{};
  uint8_t flags = 0;
  uint8_t flags2 = 0;
  VirtualLane vl{};
  ServiceLevel sl{};
  Qpn dest_qpn{};
  Qpn src_qpn{};
  Psn psn{};
  uint16_t cell_number = 0;
  uint64_t va = 0;                           // valid with kCellVa
  Rkey rkey{};                               // valid with kCellVa
  uint32_t idata = 0;                        // valid with kCellIdata
  uint32_t qkey = 0;                         // valid with a datagram header
  uint32_t srq = 0;                          // number of the SRQ, valid with an XRC header
  uint16_t pkey = 0;                         // partition of the sender
  uint32_t packet_crc = 0;                   // valid with kCellPacketCrc
  AckBody ack{};                             // valid for ACK and NAK
  const std::byte* global_header = nullptr;  // 40 bytes in place, with kCellGlobal
  std::span<const std::byte> payload{};      // in place; valid until the cell is released

  [[nodiscard]] bool has(CellFlag flag) const noexcept { return (flags & flag) != 0; }
};

enum class CrcCheck : uint8_t { kVerify, kAlreadyVerified };

/// Checks length, version, reserved bits, addresses, operation, flags and (kVerify) the cell CRC; reads each
/// header byte once. `out` is set only on kNone. Then every field is set, and fields that the cell does not
/// have are zero. Costs one pass over the payload with kVerify, none otherwise. PUSH-CELL-01, PUSH-CELL-02,
/// PUSH-CELL-05.
[[nodiscard]] CellError decode_cell(std::span<const std::byte> cell, CrcCheck crc, CellView& out) noexcept;
/// The same for a cell of at least kCellHeaderBytes, whose header has been read into `head`.
[[nodiscard]] CellError decode_cell(const CellHead& head, std::span<const std::byte> cell, CrcCheck crc,
                                    CellView& out) noexcept;

/// The part of decode_cell() that concerns an ACK's body at `at` and the blocks behind it: reserved bytes,
/// form and fields. The caller has checked the size of the cell. `out` is set only on kNone.
[[nodiscard]] CellError decode_ack_body(const std::byte* at, uint32_t payload_bytes, AckBody& out) noexcept;

/// The header words that are the same in all cells of a QP (decisions P2).
struct CellTemplate {
  uint64_t address_words[2] = {};  // bytes 0..15 in memory order, flags and operation zero
  uint64_t qpn_word = 0;           // bytes 16..23
};
struct CellAddress {
  SubnetId dest_subnet{};
  SubnetId src_subnet{};
  Lid dlid{};
  Lid slid{};
  VirtualLane vl{};
  ServiceLevel sl{};
  Qpn dest_qpn{};
  Qpn src_qpn{};
  uint16_t pkey = kPkeyDefault;  // unused for datagrams, which have their own field
};
[[nodiscard]] CellTemplate make_cell_template(const CellAddress& address) noexcept;

/// A P_Key as a cell carries it: zero for the default partition, to which nearly all cells belong.
[[nodiscard]] constexpr uint16_t wire_pkey(uint16_t pkey) noexcept {
  return pkey == kPkeyDefault ? uint16_t{0} : pkey;
}

/// The header fields that change from cell to cell.
struct CellVariable {
  Opcode opcode{};
  uint8_t flags = 0;
  uint8_t flags2 = 0;
  Psn psn{};
  uint16_t cell_number = 0;
  uint16_t payload_bytes = 0;
};

/// Writes the 32 header bytes to `to` and returns their CRC, computed from registers. Inline, so that values
/// the caller has in registers never go through memory (decisions P2).
[[nodiscard, gnu::always_inline]] inline uint32_t compose_cell_header(std::byte* to,
                                                                      const CellTemplate& fixed,
                                                                      const CellVariable& variable) noexcept {
  const uint64_t kind = static_cast<uint64_t>(variable.opcode) << 16 | uint64_t{variable.flags} << 8;
  const uint64_t tail = uint64_t{variable.flags2} << 56 | uint64_t{in_register(variable.psn.value())} << 32 |
                        uint64_t{variable.cell_number} << 16 | uint64_t{variable.payload_bytes};
  const uint64_t w0 = fixed.address_words[0];
  const uint64_t w1 = fixed.address_words[1] | to_big(kind);
  const uint64_t w2 = fixed.qpn_word;
  const uint64_t w3 = to_big(tail);
  std::memcpy(to, &w0, sizeof w0);
  std::memcpy(to + 8, &w1, sizeof w1);
  std::memcpy(to + 16, &w2, sizeof w2);
  std::memcpy(to + 24, &w3, sizeof w3);
  return crc32c_words(0, w0, w1, w2, w3);
}

/// Writes a NAK of kNakCellBytes, without blocks, and returns its CRC.
uint32_t write_nak(std::byte* to, const CellTemplate& fixed, const AckBody& body) noexcept;

}  // namespace weft
