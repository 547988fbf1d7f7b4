// adapter/memory/translation.h -- how the bytes of a region are found when they are not one contiguous
// range of the process: by a table of pages (address_table.h) or through the tables of an address space.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapter/memory/access.h"

namespace weft::adapter {

/// Bytes that lie in one piece.
struct MemoryPiece {
  std::byte* at = nullptr;
  uint64_t bytes = 0;
};

/// How the entries of an ATT are read (LAY-TPT, TPT-ATT-03).
enum class AttControl : uint8_t {
  kDirect = 0,       // entry = page address
  kFirstOrder = 1,   // entry -> list of page addresses
  kSecondOrder = 2,  // entry -> list of entries, each -> list of page addresses
};

/// What a region says of its ATT (LAY-TPT). A contiguous region has none: one piece, no entries.
struct AttInfo {
  AttControl control = AttControl::kDirect;
  uint8_t page_shift = 0;     // log2 of the page size; 0 = no pages
  uint32_t entries = 0;       // of the first level
  uint64_t all_entries = 0;   // of all levels
  uint64_t pointer = 0;       // where they lie
  uint64_t first_offset = 0;  // of the region in its first page
};

/// Turns offsets in a region into addresses. Asked only after the protection table has said yes
/// (TPT-ENTRY-01).
class Translation {
 public:
  Translation() = default;
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;
  virtual ~Translation() = default;

  /// Where byte `offset` lies, and how many bytes from it on lie in one piece; kNotMapped when there is no
  /// memory for this kind of access. `offset` is within the region. `out` is set on kNone only.
  [[nodiscard]] virtual AccessFault translate(uint64_t offset, AccessKind kind,
                                              MemoryPiece& out) const noexcept = 0;
  /// Is there memory for all of a range? Asked before anything of it is touched (TPT-LOCAL-03).
  [[nodiscard]] virtual AccessFault check(uint64_t offset, uint64_t bytes,
                                          AccessKind kind) const noexcept = 0;

  /// The table behind it, as a query of a region shows it.
  [[nodiscard]] virtual AttInfo info() const noexcept { return {}; }

  /// Regions that use it; a table is shared between regions and ends with the last one (TPT-REG-08).
  uint32_t users = 0;
};

/// Walks over the pieces of a range.
class PageWalk {
 public:
  PageWalk(const Translation& translation, uint64_t offset, uint64_t bytes, AccessKind kind) noexcept
      : translation_(&translation), offset_(offset), left_(bytes), kind_(kind) {}

  [[nodiscard]] bool done() const noexcept { return left_ == 0; }
  /// The next piece, cut to the range. Not when done().
  [[nodiscard]] AccessFault next(MemoryPiece& out) noexcept {
    const AccessFault fault = translation_->translate(offset_, kind_, out);
    if (fault != AccessFault::kNone) return fault;
    if (out.bytes > left_) out.bytes = left_;
    offset_ += out.bytes;
    left_ -= out.bytes;
    return AccessFault::kNone;
  }

 private:
  const Translation* translation_;
  uint64_t offset_;
  uint64_t left_;
  AccessKind kind_;
};

}  // namespace weft::adapter
