// How it works: both header words are loaded once into registers, and the payload is hashed once in place. On
// a whole-cell link the payload's last four bytes are the cell's CRC. There the flit CRC covers header bytes
// 0..11 and these four bytes. Then the cell's CRC is verified over the cell. So no byte of the payload is
// hashed twice (decisions P1).
#include "messages/flit.h"

#include <array>
#include <cstring>

#include "base/crc32c.h"
#include "messages/cell.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(FlitError::kCount)> kFlitErrorNames{
    "none", "too short", "length", "crc", "cell crc", "kind", "reserved", "lane", "flags"};

constexpr uint8_t kDataFlags = kFlitHead | kFlitTail | kFlitPoison;

uint32_t header_crc(uint64_t word0, uint64_t word1) noexcept {
  const std::array<uint64_t, 2> covered{to_big(word0), to_big(word1)};
  return crc32c_extend(0, covered.data(), kFlitHeaderBytes - kCrcBytes);
}

bool lane_exists(uint8_t lane, uint32_t lanes) noexcept {
  return lane < lanes || lane == kVlManagement.value();
}

/// Rules that a flit with a correct CRC must obey. The peer is at fault if one is broken.
FlitError check_form(const FlitFields& fields, const FlitProfile& profile) noexcept {
  if (!lane_exists(fields.vl.value(), profile.lanes)) return FlitError::kLane;
  if (fields.credit_vl.value() >= profile.lanes) return FlitError::kLane;
  if (fields.kind != FlitKind::kData) {
    return (fields.flags & ~kFlitAnswer) != 0 ? FlitError::kFlags : FlitError::kNone;
  }
  if ((fields.flags & ~kDataFlags) != 0) return FlitError::kFlags;
  const bool poison = (fields.flags & kFlitPoison) != 0;
  if (profile.whole_cell && fields.flags != (kFlitHead | kFlitTail)) return FlitError::kFlags;
  if (poison && (fields.flags & kFlitTail) == 0) return FlitError::kFlags;
  return FlitError::kNone;
}

}  // namespace

std::string_view to_string(FlitError error) noexcept {
  return kFlitErrorNames[static_cast<size_t>(error)];
}

FlitError decode_flit(std::span<const std::byte> flit, const FlitProfile& profile, FlitView& out) noexcept {
  if (flit.size() < kFlitHeaderBytes) return FlitError::kTooShort;
  const auto word0 = load_be_once<uint64_t>(flit.data());
  const auto word1 = load_be_once<uint64_t>(flit.data() + 8);
  const auto payload_bytes = static_cast<uint32_t>((word0 >> 32) & 0xFFFF);
  const auto kind = static_cast<uint8_t>(word0 >> 60);
  if (payload_bytes > profile.payload_bytes_max) return FlitError::kLength;
  if (payload_bytes > flit.size() - kFlitHeaderBytes) return FlitError::kTooShort;
  if (kind != 0 && payload_bytes != 0) return FlitError::kLength;
  const std::span<const std::byte> payload = flit.subspan(kFlitHeaderBytes, payload_bytes);
  uint32_t cell_crc = 0;
  uint32_t crc = 0;
  if (kind == 0 && profile.whole_cell) {
    if (payload_bytes < kCellHeaderBytes + kCrcBytes) return FlitError::kLength;
    cell_crc = load_be_once<uint32_t>(payload.data() + payload_bytes - kCrcBytes);
    crc = cell_flit_crc(word0, word1, cell_crc);
  } else {
    crc = crc32c_extend(header_crc(word0, word1), payload.data(), payload.size());
  }
  if (crc != static_cast<uint32_t>(word1)) return FlitError::kCrc;
  if (kind > static_cast<uint8_t>(FlitKind::kCredit)) return FlitError::kKind;
  if (((word1 >> 48) & 0xFF) != 0 || ((word0 >> 48) & 0x0F) != 0) return FlitError::kReserved;
  FlitFields fields;
  fields.kind = static_cast<FlitKind>(kind);
  fields.vl = VirtualLane(static_cast<uint8_t>((word0 >> 56) & 0x0F));
  fields.flags = static_cast<uint8_t>(word0 >> 48);
  fields.payload_bytes = static_cast<uint16_t>(payload_bytes);
  fields.sequence = static_cast<uint16_t>(word0 >> 16);
  fields.acknowledged = static_cast<uint16_t>(word0);
  fields.credit_vl = VirtualLane(static_cast<uint8_t>(word1 >> 56));
  fields.credit = static_cast<uint16_t>(word1 >> 32);
  const FlitError form = check_form(fields, profile);
  if (form != FlitError::kNone) return form;
  if (kind == 0 && profile.whole_cell && crc32c(payload.first(payload_bytes - kCrcBytes)) != cell_crc) {
    out = FlitView{fields, cell_crc, {}};
    return FlitError::kCellCrc;
  }
  out = FlitView{fields, cell_crc, payload};
  return FlitError::kNone;
}

void compose_flit(std::byte* to, const FlitFields& fields, bool whole_cell, uint32_t cell_crc) noexcept {
  if (fields.kind == FlitKind::kData && whole_cell) {
    compose_cell_flit(to, fields, cell_crc);
    return;
  }
  const auto [word0, word1] = flit_words(fields);
  const uint32_t crc = crc32c_extend(header_crc(word0, word1), to + kFlitHeaderBytes, fields.payload_bytes);
  store_be(to, word0);
  store_be(to + 8, word1 | crc);
}

}  // namespace weft
