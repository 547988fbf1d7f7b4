#include "messages/window_layout.h"

#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace weft {
namespace {

constexpr size_t kCrcAt = offsetof(AnchorRecord, crc);

/// [offset, offset + bytes) lies in [0, size).
bool inside(uint64_t offset, uint64_t bytes, uint64_t size) noexcept {
  return offset <= size && bytes <= size - offset;
}
/// Both ranges lie inside some memory, so that no sum wraps.
bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) noexcept {
  return a < b + b_bytes && b < a + a_bytes;
}

bool slot_size_is_good(uint32_t bytes) noexcept {
  return bytes >= kFifoSlotBytesMin && bytes <= kFifoSlotBytesMax && bytes % 8 == 0;
}

bool fifo_is_good(const WindowAnchor& anchor, uint64_t window_bytes) noexcept {
  if (anchor.fifo_offset % 8 != 0 || !inside(anchor.fifo_offset, anchor.fifo_bytes, window_bytes))
    return false;
  if (anchor.fifo_bytes < kFifoControlBytes) return false;
  if ((anchor.fifo_bytes - kFifoControlBytes) % anchor.slot_bytes != 0) return false;
  const uint64_t slots = anchor.slots();
  return std::has_single_bit(slots) && slots >= 2 && slots <= kFifoSlotsMax;
}

bool table_is_good(const WindowAnchor& anchor, uint64_t window_bytes) noexcept {
  return anchor.table_offset % 8 == 0 && inside(anchor.table_offset, anchor.table_bytes, window_bytes) &&
         anchor.table_bytes % kTableEntryBytes == 0 && anchor.entries() <= kTableEntriesMax;
}

AnchorFault fault_of(const WindowAnchor& anchor, uint64_t offset, uint64_t window_bytes) noexcept {
  if (!slot_size_is_good(anchor.slot_bytes)) return AnchorFault::kSlot;
  if (!fifo_is_good(anchor, window_bytes)) return AnchorFault::kFifo;
  if (!table_is_good(anchor, window_bytes)) return AnchorFault::kTable;
  if (overlap(offset, kAnchorBytes, anchor.fifo_offset, anchor.fifo_bytes) ||
      overlap(offset, kAnchorBytes, anchor.table_offset, anchor.table_bytes) ||
      overlap(anchor.fifo_offset, anchor.fifo_bytes, anchor.table_offset, anchor.table_bytes)) {
    return AnchorFault::kOverlap;
  }
  return AnchorFault::kNone;
}

}  // namespace

std::string_view name_of(AnchorFault fault) noexcept {
  switch (fault) {
    case AnchorFault::kNone:
      return "none";
    case AnchorFault::kPlace:
      return "the anchor record lies outside the window memory";
    case AnchorFault::kCrc:
      return "the anchor record has a wrong CRC";
    case AnchorFault::kMagic:
      return "the anchor record has a wrong magic number";
    case AnchorFault::kVersion:
      return "the anchor record has another version";
    case AnchorFault::kReserved:
      return "reserved fields of the anchor record are not 0";
    case AnchorFault::kSlot:
      return "the size of a FIFO slot is not possible";
    case AnchorFault::kFifo:
      return "place or size of the FIFO is not possible";
    case AnchorFault::kTable:
      return "place or size of the protection table is not possible";
    case AnchorFault::kOverlap:
      return "anchor record, FIFO and protection table overlap";
  }
  return "unknown";
}

std::string_view name_of(TableFault fault) noexcept {
  switch (fault) {
    case TableFault::kNone:
      return "none";
    case TableFault::kLength:
      return "an entry in use has length 0";
    case TableFault::kWraps:
      return "an entry ends beyond the last address";
    case TableFault::kRights:
      return "an entry has unknown rights, or none";
    case TableFault::kDoubleKey:
      return "two entries have one key";
  }
  return "unknown";
}

bool anchor_fits(uint64_t offset, uint64_t window_bytes) noexcept {
  return offset != 0 && offset % 8 == 0 && inside(offset, kAnchorBytes, window_bytes);
}

AnchorFault decode_anchor(std::span<const std::byte, kAnchorBytes> in, uint64_t offset, uint64_t window_bytes,
                          WindowAnchor& out) noexcept {
  if (!anchor_fits(offset, window_bytes)) return AnchorFault::kPlace;
  AnchorRecord record;
  std::memcpy(&record, in.data(), sizeof record);
  if (record.crc.get() != crc32c(in.first(kCrcAt))) return AnchorFault::kCrc;
  if (record.magic.get() != kAnchorMagic) return AnchorFault::kMagic;
  if (record.version.get() != kAnchorVersion) return AnchorFault::kVersion;
  if (record.reserved.get() != 0 || record.zero.get() != 0) return AnchorFault::kReserved;
  const WindowAnchor anchor{record.generation.get(),   record.fifo_offset.get(), record.fifo_bytes.get(),
                            record.table_offset.get(), record.table_bytes.get(), record.slot_bytes.get()};
  const AnchorFault fault = fault_of(anchor, offset, window_bytes);
  if (fault == AnchorFault::kNone) out = anchor;
  return fault;
}

std::array<std::byte, kAnchorBytes> encode_anchor(const WindowAnchor& anchor) noexcept {
  AnchorRecord record{};
  record.magic.set(kAnchorMagic);
  record.version.set(kAnchorVersion);
  record.generation.set(anchor.generation);
  record.fifo_offset.set(anchor.fifo_offset);
  record.fifo_bytes.set(anchor.fifo_bytes);
  record.table_offset.set(anchor.table_offset);
  record.table_bytes.set(anchor.table_bytes);
  record.slot_bytes.set(anchor.slot_bytes);
  record.crc.set(crc32c(std::as_bytes(std::span(&record, 1)).first(kCrcAt)));
  return std::bit_cast<std::array<std::byte, kAnchorBytes>>(record);
}

TableFault fault_of(const WindowEntry& entry) noexcept {
  if (entry.is_free()) return TableFault::kNone;
  if (entry.length == 0) return TableFault::kLength;
  if (entry.length - 1 > UINT64_MAX - entry.start) return TableFault::kWraps;
  if (entry.rights == 0 || (entry.rights & ~uint32_t{kTableRead | kTableWrite | kTableThroughOwner}) != 0)
    return TableFault::kRights;
  return TableFault::kNone;
}

WindowEntry decode_entry(std::span<const std::byte, kTableEntryBytes> in) noexcept {
  return {load_be<uint64_t>(in.data()), load_be<uint64_t>(in.data() + 8), load_be<uint32_t>(in.data() + 16),
          load_be<uint32_t>(in.data() + 20)};
}

std::array<std::byte, kTableEntryBytes> encode_entry(const WindowEntry& entry) noexcept {
  std::array<std::byte, kTableEntryBytes> out;
  store_be(out.data(), entry.start);
  store_be(out.data() + 8, entry.length);
  store_be(out.data() + 16, entry.rights);
  store_be(out.data() + 20, entry.key);
  return out;
}

}  // namespace weft
