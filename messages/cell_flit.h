// messages/cell_flit.h -- decode_flit() for whole-cell data flits, its most frequent case, inline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/crc32c_few.h"
#include "base/endian.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "messages/ids.h"

namespace weft {

/// Decodes a valid data flit that is a whole cell; sets `out` as decode_flit() does. False: another kind of
/// flit, or an error, which decode_flit() names; nothing is set. Each header byte is read once.
[[nodiscard]] inline bool decode_cell_flit(std::span<const std::byte> flit, const FlitProfile& profile,
                                           FlitView& out) noexcept {
  // Kind, flags and reserved bits of the first word.
  constexpr uint64_t kFixed = 0xF0FF'0000'0000'0000ULL;
  constexpr uint64_t kWhole = uint64_t{kFlitHead | kFlitTail} << 48;
  constexpr uint32_t kCellBytesMin = kCellHeaderBytes + kCrcBytes;
  if (!profile.whole_cell || flit.size() < kFlitHeaderBytes + kCellBytesMin) return false;
  const auto word0 = load_be_once<uint64_t>(flit.data());
  const auto word1 = load_be_once<uint64_t>(flit.data() + 8);
  const auto bytes = static_cast<uint32_t>((word0 >> 32) & 0xFFFF);
  const auto lane = static_cast<uint8_t>((word0 >> 56) & 0x0F);
  const auto credit_lane = static_cast<uint8_t>(word1 >> 56);
  if ((word0 & kFixed) != kWhole || ((word1 >> 48) & 0xFF) != 0) return false;
  if (bytes < kCellBytesMin || bytes > profile.payload_bytes_max || bytes > flit.size() - kFlitHeaderBytes)
    return false;
  if ((lane >= profile.lanes && lane != kVlManagement.value()) || credit_lane >= profile.lanes) return false;
  const std::byte* cell = flit.data() + kFlitHeaderBytes;
  const auto cell_crc = load_be_once<uint32_t>(cell + bytes - kCrcBytes);
  if (cell_flit_crc(word0, word1, cell_crc) != static_cast<uint32_t>(word1)) return false;
  if (crc32c_of_few(0, cell, bytes - kCrcBytes) != cell_crc) return false;
  out.fields.kind = FlitKind::kData;
  out.fields.vl = VirtualLane(lane);
  out.fields.flags = kFlitHead | kFlitTail;
  out.fields.payload_bytes = static_cast<uint16_t>(bytes);
  out.fields.sequence = static_cast<uint16_t>(word0 >> 16);
  out.fields.acknowledged = static_cast<uint16_t>(word0);
  out.fields.credit_vl = VirtualLane(credit_lane);
  out.fields.credit = static_cast<uint16_t>(word1 >> 32);
  out.cell_crc = cell_crc;
  out.payload = {cell, bytes};
  return true;
}

}  // namespace weft
