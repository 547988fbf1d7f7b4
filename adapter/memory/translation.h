// adapter/memory/translation.h -- finds the bytes of a region that is not one contiguous range of the
// process: by a table of pages (address_table.h) or by the tables of an address space.
#pragma once

#include <cstddef>
#include <cstdint>

#include "adapter/memory/access.h"

namespace weft::adapter {

/// Contiguous bytes.
struct MemoryPiece {
  std::byte* at = nullptr;
  uint64_t bytes = 0;
};

/// Meaning of the entries of an ATT (LAY-TPT, TPT-ATT-03).
enum class AttControl : uint8_t {
  kDirect = 0,       // entry = page address
  kFirstOrder = 1,   // entry -> list of page addresses
  kSecondOrder = 2,  // entry -> list of entries, each -> list of page addresses
};

/// A region's ATT for queries (LAY-TPT). A contiguous region has one piece and no entries.
struct AttInfo {
  AttControl control = AttControl::kDirect;
  uint8_t page_shift = 0;     // log2 of the page size; 0: no pages
  uint32_t entries = 0;       // of the first level
  uint64_t all_entries = 0;   // of all levels
  uint64_t pointer = 0;       // address of the entries, or of a contiguous region
  uint64_t first_offset = 0;  // offset of the region in its first page
};

/// Converts offsets in a region to addresses. Used only after the protection table has allowed the access
/// (TPT-ENTRY-01).
class Translation {
 public:
  Translation() = default;
  Translation(const Translation&) = delete;
  Translation& operator=(const Translation&) = delete;
  virtual ~Translation() = default;

  /// Address of byte `offset`, and number of contiguous bytes from there. kNotMapped when there is no memory
  /// for this kind of access. `offset` must be within the region. `out` is set only on kNone.
  [[nodiscard]] virtual AccessFault translate(uint64_t offset, AccessKind kind,
                                              MemoryPiece& out) const noexcept = 0;
  /// kNone when there is memory for the whole range. Called before any byte of it is accessed (TPT-LOCAL-03).
  [[nodiscard]] virtual AccessFault check(uint64_t offset, uint64_t bytes,
                                          AccessKind kind) const noexcept = 0;

  /// The table, for queries of a region.
  [[nodiscard]] virtual AttInfo info() const noexcept { return {}; }

  /// Number of regions that use it. Regions may share a table, which ends with the last one (TPT-REG-08).
  uint32_t users = 0;
};

/// Walks over the contiguous pieces of a range.
class PageWalk {
 public:
  PageWalk(const Translation& translation, uint64_t offset, uint64_t bytes, AccessKind kind) noexcept
      : translation_(&translation), offset_(offset), left_(bytes), kind_(kind) {}

  [[nodiscard]] bool done() const noexcept { return left_ == 0; }
  /// The next piece, cut to the range. Must not be called when done().
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
