// messages/window_layout.h -- LAY-NTB: anchor record, FIFO and memory protection table in the window memory
// of one side. docs/window.md has the pictures. Everything here is read from a private copy: a peer may write
// the original at any time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/endian.h"

namespace weft {

inline constexpr uint32_t kAnchorMagic = 0x414E4352;  // "ANCR"
inline constexpr uint16_t kAnchorVersion = 1;
inline constexpr uint64_t kAnchorBytes = 64;
inline constexpr uint64_t kFifoControlBytes = 64;
inline constexpr uint32_t kSlotHeaderBytes = 16;
inline constexpr uint64_t kTableEntryBytes = 24;

inline constexpr uint64_t kFifoSlotsMax = 65'536;
inline constexpr uint32_t kFifoSlotBytesMin = 64;
inline constexpr uint32_t kFifoSlotBytesMax = 65'536;
inline constexpr uint64_t kTableEntriesMax = 65'536;

/// Offsets of words that move as one access of eight bytes.
inline constexpr uint64_t kAnchorGenerationAt = 8;  // in the anchor record
inline constexpr uint64_t kFifoHeadAt = 0;          // in the FIFO's control block
inline constexpr uint64_t kFifoTailAt = 8;
inline constexpr uint64_t kFifoTableUseAt = 16;
/// The second half of a slot's header, source context and sequence, which a sender that stores into mapped
/// memory writes last.
inline constexpr uint64_t kSlotMarkAt = 8;

struct AnchorRecord {
  Be32 magic;
  Be16 version;
  Be16 reserved;
  Be64 generation;
  Be64 fifo_offset;
  Be64 fifo_bytes;
  Be64 table_offset;
  Be64 table_bytes;
  Be32 slot_bytes;
  Be64 zero;
  Be32 crc;
};
static_assert(sizeof(AnchorRecord) == kAnchorBytes && alignof(AnchorRecord) == 1);
static_assert(offsetof(AnchorRecord, version) == 4 && offsetof(AnchorRecord, reserved) == 6 &&
              offsetof(AnchorRecord, generation) == kAnchorGenerationAt &&
              offsetof(AnchorRecord, fifo_offset) == 16 && offsetof(AnchorRecord, fifo_bytes) == 24 &&
              offsetof(AnchorRecord, table_offset) == 32 && offsetof(AnchorRecord, table_bytes) == 40 &&
              offsetof(AnchorRecord, slot_bytes) == 48 && offsetof(AnchorRecord, zero) == 52 &&
              offsetof(AnchorRecord, crc) == 60);

/// What an anchor record says (NTB-ADV-01). Offsets are in the window memory; sizes in bytes.
struct WindowAnchor {
  uint64_t generation = 0;
  uint64_t fifo_offset = 0;
  uint64_t fifo_bytes = 0;
  uint64_t table_offset = 0;
  uint64_t table_bytes = 0;
  uint32_t slot_bytes = 0;

  /// The number of slots, a power of two.
  [[nodiscard]] uint64_t slots() const noexcept { return (fifo_bytes - kFifoControlBytes) / slot_bytes; }
  [[nodiscard]] uint64_t entries() const noexcept { return table_bytes / kTableEntryBytes; }
  /// Offset of the slot of a position.
  [[nodiscard]] uint64_t slot_at(uint64_t position) const noexcept {
    return fifo_offset + kFifoControlBytes + (position & (slots() - 1)) * slot_bytes;
  }
  friend bool operator==(const WindowAnchor&, const WindowAnchor&) = default;
};

/// Why an anchor record is refused.
enum class AnchorFault : uint8_t {
  kNone,
  kPlace,  // the record lies outside the window memory, or at a wrong multiple
  kCrc,    // also: the owner is writing it
  kMagic,
  kVersion,
  kReserved,  // reserved fields that are not 0
  kSlot,      // size of a slot
  kFifo,      // place, size or number of slots of the FIFO
  kTable,     // place or size of the table
  kOverlap,   // of anchor record, FIFO and table
};
[[nodiscard]] std::string_view name_of(AnchorFault fault) noexcept;

/// Whether a record may lie at `offset` of `window_bytes` bytes.
[[nodiscard]] bool anchor_fits(uint64_t offset, uint64_t window_bytes) noexcept;
/// Reads a record that was copied from `offset` of a window memory of `window_bytes`. `out` is set on kNone
/// only.
[[nodiscard]] AnchorFault decode_anchor(std::span<const std::byte, kAnchorBytes> in, uint64_t offset,
                                        uint64_t window_bytes, WindowAnchor& out) noexcept;
/// The record with its CRC.
[[nodiscard]] std::array<std::byte, kAnchorBytes> encode_anchor(const WindowAnchor& anchor) noexcept;

/// The header of a FIFO slot.
struct SlotHeader {
  Be32 length;
  Be32 destination;
  Be32 source;
  Be32 sequence;
};
static_assert(sizeof(SlotHeader) == kSlotHeaderBytes && alignof(SlotHeader) == 1);
static_assert(offsetof(SlotHeader, destination) == 4 && offsetof(SlotHeader, source) == 8 &&
              offsetof(SlotHeader, sequence) == 12);

/// What a slot holds. Contexts are QP numbers; destination 0 makes a slot void.
struct FifoSlot {
  uint32_t length = 0;  // bytes of data
  uint32_t destination = 0;
  uint32_t source = 0;
};
enum class SlotFault : uint8_t { kNone, kLength, kSequence };
/// `position`: the slot's, counted since start-up.
[[nodiscard]] inline SlotFault decode_slot(std::span<const std::byte, kSlotHeaderBytes> in,
                                           uint32_t slot_bytes, uint64_t position, FifoSlot& out) noexcept {
  SlotHeader header;
  std::memcpy(&header, in.data(), sizeof header);
  if (header.length.get() > slot_bytes - kSlotHeaderBytes) return SlotFault::kLength;
  if (header.sequence.get() != static_cast<uint32_t>(position)) return SlotFault::kSequence;
  out = {header.length.get(), header.destination.get(), header.source.get()};
  return SlotFault::kNone;
}

[[nodiscard]] inline std::array<std::byte, kSlotHeaderBytes> encode_slot(const FifoSlot& slot,
                                                                         uint64_t position) noexcept {
  SlotHeader header;
  header.length.set(slot.length);
  header.destination.set(slot.destination);
  header.source.set(slot.source);
  header.sequence.set(static_cast<uint32_t>(position));
  return std::bit_cast<std::array<std::byte, kSlotHeaderBytes>>(header);
}

enum TableRight : uint32_t {
  kTableRead = 1,
  kTableWrite = 2,
  kTableThroughOwner = 4,  // no DMA: the owner executes what its entry allows
};

/// One entry of the memory protection table (NTB-ADV-03).
struct WindowEntry {
  uint64_t start = 0;   // first address, as peers name it
  uint64_t length = 0;  // bytes, at least 1
  uint32_t rights = 0;  // TableRight
  uint32_t key = 0;
  [[nodiscard]] bool is_free() const noexcept { return *this == WindowEntry{}; }
  friend bool operator==(const WindowEntry&, const WindowEntry&) = default;
};
enum class TableFault : uint8_t { kNone, kLength, kWraps, kRights, kDoubleKey };
[[nodiscard]] std::string_view name_of(TableFault fault) noexcept;
/// All but kDoubleKey, which needs the other entries. A free entry is good.
[[nodiscard]] TableFault fault_of(const WindowEntry& entry) noexcept;
[[nodiscard]] WindowEntry decode_entry(std::span<const std::byte, kTableEntryBytes> in) noexcept;
[[nodiscard]] std::array<std::byte, kTableEntryBytes> encode_entry(const WindowEntry& entry) noexcept;

}  // namespace weft
