#include "messages/cell_stream.h"

#include "messages/opcode.h"

namespace weft {

/// No cell is like one with a datagram, XRC or global header or a packet CRC, whose parts have own checks.
CellError CellStream::decode_other(std::span<const std::byte> cell, CrcCheck crc) noexcept {
  if (cell.size() < kCellHeaderBytes) return CellError::kTooShort;
  const CellHead head(cell.data());
  const uint32_t properties = opcode_properties(head.opcode());
  const Kind kind = (properties & kOpAcknowledge) != 0 ? kAck : kData;
  Last& last = last_[kind];
  const CellError error = decode_cell(head, cell, crc, last.view);
  if (error != CellError::kNone) return error;
  const bool plain = (properties & (kOpDatagramHeader | kOpXrcHeader)) == 0 && !last.view.has(kCellGlobal) &&
                     !last.view.has(kCellPacketCrc);
  last.around_bytes = plain ? static_cast<uint32_t>(cell.size() - last.view.payload.size()) : 0;
  last.head = head;
  kind_ = kind;
  return error;
}

}  // namespace weft
