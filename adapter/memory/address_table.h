// adapter/memory/address_table.h -- the address translation table (ATT) of a region made of pages: 64-bit
// page addresses in ascending order, accessed directly or through one or two levels of lists (TPT-ATT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adapter/memory/translation.h"
#include "base/result.h"

namespace weft::adapter {

/// Page addresses or entries in one list.
inline constexpr uint32_t kAttListEntries = 512;
inline constexpr uint64_t kPageBytesMin = uint64_t{4} << 10;
inline constexpr uint64_t kPageBytesMax = uint64_t{256} << 20;

/// The pages of a region, in the order of its addresses.
struct PageList {
  std::span<std::byte* const> pages{};  // first byte of each page
  uint64_t page_bytes = kPageBytesMin;  // power of two, kPageBytesMin..kPageBytesMax (TPT-ATT-04)
  uint64_t first_offset = 0;            // offset of the region's first byte in its first page
  uint64_t length = 0;                  // bytes of the region; it ends within the last page
  std::optional<AttControl> control{};  // not given: chosen by the number of pages
};

class AddressTable final : public Translation {
  struct Passed {};  // makes the constructor usable by make() only

 public:
  AddressTable(Passed passed, const PageList& list);
  /// Copies the list. Refused: an invalid page size, a null page, more or fewer pages than the length needs.
  [[nodiscard]] static Refusable<std::unique_ptr<AddressTable>> make(const PageList& list);

  [[nodiscard]] AccessFault translate(uint64_t offset, AccessKind kind,
                                      MemoryPiece& out) const noexcept override;
  [[nodiscard]] AccessFault check(uint64_t /*offset*/, uint64_t /*bytes*/,
                                  AccessKind /*kind*/) const noexcept override {
    return AccessFault::kNone;  // make() has checked that every page has an address
  }
  [[nodiscard]] AttInfo info() const noexcept override;
  /// Bytes of the region.
  [[nodiscard]] uint64_t length() const noexcept { return length_; }

 private:
  using List = std::vector<uint64_t>;

  /// Groups `entries` into lists, which this object keeps. Returns the addresses of the lists.
  [[nodiscard]] List make_lists(const List& entries);
  [[nodiscard]] uint64_t page_address(uint64_t page) const noexcept;

  AttControl control_;
  uint8_t shift_;
  uint64_t first_offset_;
  uint64_t length_;
  List entries_;             // the entries that the ATT pointer points to
  std::vector<List> lists_;  // the lists of both lower levels
};

}  // namespace weft::adapter
