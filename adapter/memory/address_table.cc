#include "adapter/memory/address_table.h"

#include <algorithm>
#include <bit>

namespace weft::adapter {
namespace {

constexpr uint64_t kPagesDirectMax = kAttListEntries;
constexpr uint64_t kPagesFirstOrderMax = uint64_t{kAttListEntries} * kAttListEntries;

[[nodiscard]] AttControl control_for(const PageList& list) noexcept {
  if (list.control) return *list.control;
  if (list.pages.size() <= kPagesDirectMax) return AttControl::kDirect;
  return list.pages.size() <= kPagesFirstOrderMax ? AttControl::kFirstOrder : AttControl::kSecondOrder;
}

[[nodiscard]] const uint64_t* list_at(uint64_t address) noexcept {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a table entry is a 64-bit address (TPT-ATT-01)
  return reinterpret_cast<const uint64_t*>(address);
}

}  // namespace

Refusable<std::unique_ptr<AddressTable>> AddressTable::make(const PageList& list) {
  const uint64_t size = list.page_bytes;
  if (!std::has_single_bit(size) || size < kPageBytesMin || size > kPageBytesMax)
    return Refusal{Reason::kBadSize, "page list: a page has 4 KiB to 256 MiB, a power of two"};
  if (list.length == 0) return Refusal{Reason::kBadRange, "page list: a region has at least one byte"};
  if (list.first_offset >= size)
    return Refusal{Reason::kBadRange, "page list: the first offset lies beyond the first page"};
  if (list.length > ~uint64_t{0} - list.first_offset - (size - 1))
    return Refusal{Reason::kBadRange, "page list: ends behind the last address"};
  if (list.pages.size() != (list.first_offset + list.length + size - 1) / size)
    return Refusal{Reason::kBadRange, "page list: the number of pages does not fit the length"};
  if (std::find(list.pages.begin(), list.pages.end(), nullptr) != list.pages.end())
    return Refusal{Reason::kBadRange, "page list: a page without address"};
  return std::make_unique<AddressTable>(Passed{}, list);
}

AddressTable::AddressTable(Passed /*passed*/, const PageList& list)
    : control_(control_for(list)),
      shift_(static_cast<uint8_t>(std::countr_zero(list.page_bytes))),
      first_offset_(list.first_offset),
      length_(list.length) {
  entries_.reserve(list.pages.size());
  for (std::byte* page : list.pages) entries_.push_back(reinterpret_cast<uintptr_t>(page));
  for (auto levels = static_cast<uint32_t>(control_); levels > 0; --levels) entries_ = make_lists(entries_);
}

AddressTable::List AddressTable::make_lists(const List& entries) {
  List addresses;
  for (size_t first = 0; first < entries.size(); first += kAttListEntries) {
    const size_t count = std::min<size_t>(kAttListEntries, entries.size() - first);
    const auto begin = entries.begin() + static_cast<ptrdiff_t>(first);
    lists_.emplace_back(begin, begin + static_cast<ptrdiff_t>(count));
    addresses.push_back(reinterpret_cast<uintptr_t>(lists_.back().data()));
  }
  return addresses;
}

uint64_t AddressTable::page_address(uint64_t page) const noexcept {
  switch (control_) {
    case AttControl::kDirect:
      return entries_[page];
    case AttControl::kFirstOrder:
      return list_at(entries_[page / kAttListEntries])[page % kAttListEntries];
    case AttControl::kSecondOrder: {
      const uint64_t list = page / kAttListEntries;
      return list_at(
          list_at(entries_[list / kAttListEntries])[list % kAttListEntries])[page % kAttListEntries];
    }
  }
  return 0;
}

AccessFault AddressTable::translate(uint64_t offset, AccessKind /*kind*/, MemoryPiece& out) const noexcept {
  const uint64_t place = first_offset_ + offset;
  const uint64_t page_bytes = uint64_t{1} << shift_;
  const uint64_t in_page = place & (page_bytes - 1);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a table entry is a 64-bit address (TPT-ATT-01)
  out = {reinterpret_cast<std::byte*>(page_address(place >> shift_) + in_page), page_bytes - in_page};
  return AccessFault::kNone;
}

AttInfo AddressTable::info() const noexcept {
  uint64_t all = entries_.size();
  for (const List& list : lists_) all += list.size();
  return {.control = control_,
          .page_shift = shift_,
          .entries = static_cast<uint32_t>(entries_.size()),
          .all_entries = all,
          .pointer = reinterpret_cast<uintptr_t>(entries_.data()),
          .first_offset = first_offset_};
}

}  // namespace weft::adapter
