// How it works: the four 64-bit words of the header are loaded once into registers, and every check uses
// these copies. The parts behind the header are taken in LAY-CELL order. Their total size is checked against
// the cell's size first.
#include "messages/cell.h"

#include <array>

#include "base/check.h"
#include "base/crc32c.h"
#include "messages/transport_headers.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(CellError::kCount)> kCellErrorNames{
    "none", "too short", "version", "reserved", "address", "opcode", "flags", "length", "cell number", "crc"};

constexpr uint64_t kPkeyBits = 0xFF00'0000'FF00'0000ULL;  // of the third word

/// The partition for the P_Key field `wire` of a cell.
uint16_t pkey_of(uint16_t wire) noexcept {
  return wire == 0 ? kPkeyDefault : wire;
}

/// Checks flags that only some operations may carry. Without branches, because the flags depend on the
/// traffic and branches would be mispredicted.
CellError check_flags(uint32_t properties, uint8_t flags, uint8_t flags2, uint16_t cell_number) noexcept {
  const uint32_t first = cell_number == 0 ? kCellFirst : 0;
  const uint32_t va = cell_number == 0 && (properties & kOpVaInFirstCell) != 0 ? kCellVa : 0;
  const uint32_t whole = (properties & kOpMultiCell) != 0 ? 0 : kCellFirst | kCellLast;
  const uint32_t no_idata = (properties & kOpMayCarryIdata) != 0 ? 0 : kCellIdata;
  const uint32_t no_crc = (flags & kCellLast) != 0 ? 0 : kCellPacketCrc;
  if ((flags2 & ~(kCell2OfPacket | kCell2MayMigrate)) != 0) return CellError::kReserved;
  if (((flags ^ first) & kCellFirst) != 0 || cell_number >= kCellsPerPacketMax) return CellError::kCellNumber;
  const uint32_t wrong = (~flags & whole) | ((flags ^ va) & kCellVa) | (flags & (no_idata | no_crc));
  return wrong == 0 ? CellError::kNone : CellError::kFlags;
}

/// True when a reserved bit is set: in a datagram's or XRC header at `at`, or in a datagram's third word.
[[gnu::noinline]] bool reserved_used(const std::byte* at, uint32_t properties, uint64_t third_word) noexcept {
  if ((properties & kOpXrcHeader) != 0) return at[0] != std::byte{0};
  return load_be<uint16_t>(at + 6) != 0 || (third_word & kPkeyBits) != 0;
}

constexpr uint8_t kFlagsWithParts = kCellGlobal | kCellVa | kCellIdata | kCellPacketCrc;
constexpr uint32_t kOpsWithParts = kOpDatagramHeader | kOpAcknowledge | kOpXrcHeader;

/// Takes the parts between header and data. The caller has checked the total size.
[[gnu::noinline]] void take_parts(const std::byte* at, uint32_t properties, uint32_t payload_bytes,
                                  CellView& out) noexcept {
  if (out.has(kCellGlobal)) {
    out.global_header = at;
    at += kGlobalHeaderBytes;
  }
  if (out.has(kCellVa)) {
    out.va = load_be<uint64_t>(at);
    out.rkey = Rkey(load_be<uint32_t>(at + 8));
    at += kVaBytes;
  }
  if ((properties & kOpDatagramHeader) != 0) {
    out.qkey = load_be<uint32_t>(at);
    out.pkey = pkey_of(load_be<uint16_t>(at + 4));
    at += kDatagramHeaderBytes;
  }
  if ((properties & kOpXrcHeader) != 0) {
    out.srq = load_be<uint32_t>(at);
    at += kXrcHeaderBytes;
  }
  if (out.has(kCellIdata)) {
    out.idata = load_be<uint32_t>(at);
    at += kIdataBytes;
  }
  if ((properties & kOpAcknowledge) != 0) at += kAckBodyBytes;
  out.payload = {at, payload_bytes};
  if (out.has(kCellPacketCrc)) out.packet_crc = load_be<uint32_t>(at + payload_bytes);
}

uint32_t parts_bytes(uint8_t flags, uint32_t properties) noexcept {
  if ((flags & kFlagsWithParts) == 0 && (properties & kOpsWithParts) == 0) return 0;
  return ((flags & kCellGlobal) != 0 ? kGlobalHeaderBytes : 0) + ((flags & kCellVa) != 0 ? kVaBytes : 0) +
         ((properties & kOpDatagramHeader) != 0 ? kDatagramHeaderBytes : 0) +
         ((properties & kOpXrcHeader) != 0 ? kXrcHeaderBytes : 0) +
         ((properties & kOpAcknowledge) != 0 ? kAckBodyBytes : 0) +
         ((flags & kCellIdata) != 0 ? kIdataBytes : 0) + ((flags & kCellPacketCrc) != 0 ? kCrcBytes : 0);
}

bool usable_lid(uint64_t lid) noexcept {
  return lid != 0 && lid <= kLidMax;
}

}  // namespace

std::string_view to_string(CellError error) noexcept {
  return kCellErrorNames[static_cast<size_t>(error)];
}

/// Not inline, because data cells need the registers.
[[gnu::noinline]] CellError decode_ack_body(const std::byte* at, uint32_t payload_bytes,
                                            AckBody& out) noexcept {
  if (payload_bytes % sizeof(SelectiveBlockWire) != 0 ||
      payload_bytes > kSelectiveBlocksMax * sizeof(SelectiveBlockWire)) {
    return CellError::kLength;
  }
  std::byte reserved = at[0] | at[7];
  const std::byte* block = at + kAckBodyBytes;
  for (const std::byte* end = block + payload_bytes; block != end; block += sizeof(SelectiveBlockWire)) {
    reserved |= block[0] | block[6] | block[7];
  }
  const auto code = load_once<uint8_t>(at + 6);
  if (reserved != std::byte{0} || code >= static_cast<uint8_t>(AckCode::kCount)) {
    return CellError::kReserved;
  }
  out = {.psn = Psn(load_be<uint32_t>(at)),
         .cell_number = load_be<uint16_t>(at + 4),
         .code = static_cast<AckCode>(code),
         .messages_completed = load_be<uint32_t>(at + 8)};
  return CellError::kNone;
}

CellError decode_cell(std::span<const std::byte> cell, CrcCheck crc, CellView& out) noexcept {
  if (cell.size() < kCellHeaderBytes) return CellError::kTooShort;
  return decode_cell(CellHead(cell.data()), cell, crc, out);
}

CellError decode_cell(const CellHead& head, std::span<const std::byte> cell, CrcCheck crc,
                      CellView& out) noexcept {
  if (cell.size() < kCellHeaderBytes + kCrcBytes) return CellError::kTooShort;
  const uint64_t w0 = head.word(0);
  const uint64_t w1 = head.word(1);
  const uint64_t w2 = head.word(2);
  const uint64_t w3 = head.word(3);
  if (static_cast<uint8_t>(w1 >> 24) != kCellVersion) return CellError::kVersion;
  const auto opcode = static_cast<uint8_t>(w1 >> 16);
  const uint32_t properties = opcode_properties(opcode);
  if (properties == 0) return CellError::kOpcode;
  const uint64_t dlid = (w0 >> 16) & 0xFFFF;
  const uint64_t slid = (w1 >> 32) & 0xFFFF;
  if ((w0 >> 48) != kAddressPrefix || (w0 & 0xFFFF) != kAddressPrefix || !usable_lid(dlid) ||
      !usable_lid(slid)) {
    return CellError::kAddress;
  }
  const auto flags = static_cast<uint8_t>(w1 >> 8);
  const auto flags2 = static_cast<uint8_t>(w3 >> 56);
  const auto cell_number = static_cast<uint16_t>(w3 >> 16);
  const CellError bad = check_flags(properties, flags, flags2, cell_number);
  if (bad != CellError::kNone) return bad;
  const auto payload_bytes = static_cast<uint32_t>(w3 & 0xFFFF);
  const uint32_t parts_size = parts_bytes(flags, properties);
  if (cell.size() != kCellHeaderBytes + parts_size + payload_bytes + kCrcBytes) return CellError::kLength;
  if (crc == CrcCheck::kVerify) {
    const size_t covered = cell.size() - kCrcBytes;
    if (crc32c(cell.first(covered)) != load_be<uint32_t>(cell.data() + covered)) return CellError::kCrc;
  }
  const std::byte* parts =
      cell.data() + kCellHeaderBytes + ((flags & kCellGlobal) != 0 ? kGlobalHeaderBytes : 0);
  if ((properties & (kOpDatagramHeader | kOpXrcHeader)) != 0) {
    const std::byte* header = parts + ((flags & kCellVa) != 0 ? kVaBytes : 0);
    if (reserved_used(header, properties, w2)) return CellError::kReserved;
  }
  if ((properties & kOpAcknowledge) != 0) {
    AckBody ack;
    if (const CellError form = decode_ack_body(parts, payload_bytes, ack); form != CellError::kNone)
      return form;
    out.ack = ack;
  } else {
    out.ack = {};
  }
  out.dest_subnet = SubnetId(static_cast<uint16_t>(w0 >> 32));
  out.src_subnet = SubnetId(static_cast<uint16_t>(w1 >> 48));
  out.dlid = Lid(static_cast<uint16_t>(dlid));
  out.slid = Lid(static_cast<uint16_t>(slid));
  out.opcode = static_cast<Opcode>(opcode);
  out.flags = flags;
  out.flags2 = flags2;
  out.vl = VirtualLane(static_cast<uint8_t>(w1 & 0x0F));
  out.sl = ServiceLevel(static_cast<uint8_t>((w1 >> 4) & 0x0F));
  out.dest_qpn = Qpn(static_cast<uint32_t>(w2 >> 32) & kQpnMask);
  out.src_qpn = Qpn(static_cast<uint32_t>(w2) & kQpnMask);
  out.psn = Psn(static_cast<uint32_t>(w3 >> 32));
  out.cell_number = cell_number;
  out.va = 0;
  out.rkey = {};
  out.idata = out.qkey = out.packet_crc = out.srq = 0;
  out.pkey = pkey_of(static_cast<uint16_t>((w2 >> 48 & 0xFF00) | (w2 >> 24 & 0xFF)));
  out.global_header = nullptr;
  out.payload = {cell.data() + kCellHeaderBytes, payload_bytes};
  if (parts_size != 0) take_parts(cell.data() + kCellHeaderBytes, properties, payload_bytes, out);
  return CellError::kNone;
}

CellTemplate make_cell_template(const CellAddress& address) noexcept {
  CellTemplate out;
  const uint64_t w0 = uint64_t{kAddressPrefix} << 48 | uint64_t{address.dest_subnet.value()} << 32 |
                      uint64_t{address.dlid.value()} << 16 | kAddressPrefix;
  const uint64_t w1 = uint64_t{address.src_subnet.value()} << 48 | uint64_t{address.slid.value()} << 32 |
                      uint64_t{kCellVersion} << 24 |
                      static_cast<uint64_t>((address.sl.value() << 4) | address.vl.value());
  out.address_words[0] = to_big(w0);
  out.address_words[1] = to_big(w1);
  const uint64_t pkey = wire_pkey(address.pkey);
  out.qpn_word = to_big((pkey >> 8) << 56 | uint64_t{address.dest_qpn.value()} << 32 | (pkey & 0xFF) << 24 |
                        uint64_t{address.src_qpn.value()});
  return out;
}

uint32_t write_nak(std::byte* to, const CellTemplate& fixed, const AckBody& body) noexcept {
  const uint32_t header = compose_cell_header(
      to, fixed, {.opcode = Opcode::kNak, .flags = kCellFirst | kCellLast, .psn = body.psn});
  std::byte* at = to + kCellHeaderBytes;
  store_be(at, body.psn.value());
  store_be(at + 4, body.cell_number);
  store_be(at + 6, static_cast<uint16_t>(static_cast<uint16_t>(body.code) << 8));
  store_be(at + 8, body.messages_completed);
  const uint32_t crc = crc32c_extend(header, at, kAckBodyBytes);
  store_be(at + kAckBodyBytes, crc);
  return crc;
}

}  // namespace weft
