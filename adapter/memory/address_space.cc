// How it works: an effective address contains a segment ID. The segment table of the process maps it to the
// upper bits of a virtual address; page number and offset stay the same. Upper bits and page number select
// the page. A region over such addresses is a normal entry; its translation uses these tables for every piece
// that is read or written. So a change by the manager has effect at once, and a range that has become invalid
// grants no access (SAN-RMP-11).
#include "adapter/memory/address_space.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace weft::adapter {

/// Addresses of one process as a region sees them. Destroyed before the AddressSpaces; both belong to one
/// MemoryTable.
class SpaceTranslation final : public Translation {
 public:
  SpaceTranslation(AddressSpaces& spaces, PdId pd, AddressKind kind, uint64_t address) noexcept
      : spaces_(spaces), pd_(pd), kind_(kind), address_(address) {}

  [[nodiscard]] AccessFault translate(uint64_t offset, AccessKind kind,
                                      MemoryPiece& out) const noexcept override {
    return spaces_.translate(pd_, kind_, address_ + offset, kind, out);
  }
  [[nodiscard]] AccessFault check(uint64_t offset, uint64_t bytes, AccessKind kind) const noexcept override {
    PageWalk walk(*this, offset, bytes, kind);
    AccessFault fault = AccessFault::kNone;
    for (MemoryPiece piece; fault == AccessFault::kNone && !walk.done();) fault = walk.next(piece);
    return fault;
  }

 private:
  AddressSpaces& spaces_;
  PdId pd_;
  AddressKind kind_;
  uint64_t address_;
};

AddressSpaces::AddressSpaces(MemoryTable& table, MemoryManager& manager) : table_(table), manager_(manager) {
  faults_.reset(kPageFaultsMax);
}

Refusable<> AddressSpaces::assign(PdId pd, ProcessId process, ProcessMode mode) {
  if (owners_.contains(pd))
    return Refusal{Reason::kTaken, "assign: the protection domain already belongs to a process"};
  if (mode == ProcessMode::kUser)
    if (Refusable<> confined = table_.regions.confine(pd); !confined) return confined.error();
  owners_.emplace(pd, Owner{process, mode});
  return {};
}

void AddressSpaces::open_qp(PdId pd) {
  const auto owner = owners_.find(pd);
  if (owner != owners_.end()) fetch(owner->second.process);
}

void AddressSpaces::fetch(ProcessId id) {
  Process& process = processes_[id];
  if (std::exchange(process.fetched, true)) return;
  ++fetches_;
  for (const Segment& segment : manager_.segment_table(id)) process.segments[segment.id] = segment;
}

void AddressSpaces::segment_table_update(ProcessId process, const Segment& segment) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;  // not fetched yet: the fetch gets the new state
  found->second.segments[segment.id] = segment;
  table_.computer().end_grants();
}

Refusable<> AddressSpaces::map_local_page(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || bytes - 1 > std::numeric_limits<uint64_t>::max() - address)
    return Refusal{Reason::kBadRange, "map_local_page: no range of addresses"};
  const uint64_t first = address / kSpacePageBytes;
  const uint64_t last = (address + (bytes - 1)) / kSpacePageBytes;
  std::vector<PageEntry> entries;
  for (uint64_t page = first; page <= last; ++page) {
    const std::optional<PageEntry> entry = manager_.page_entry(page);
    if (!entry) return Refusal{Reason::kBadRange, "map_local_page: page {} has no page table entry", page};
    entries.push_back(*entry);
  }
  for (const PageEntry& entry : entries) pages_[entry.page] = entry;
  return {};
}

void AddressSpaces::page_changed(const PageEntry& entry) {
  const auto found = pages_.find(entry.page);
  if (found == pages_.end()) return;
  found->second = entry;
  table_.computer().end_grants();
}

std::optional<uint64_t> AddressSpaces::to_virtual(ProcessId process, uint64_t effective) const noexcept {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return std::nullopt;
  AddressParts parts = split_address(effective);
  const auto segment = found->second.segments.find(parts.upper);
  if (segment == found->second.segments.end() || !segment->second.valid) return std::nullopt;
  parts.upper = segment->second.upper;
  return join_address(parts);
}

AccessFault AddressSpaces::find_page(PdId pd, uint64_t address, AccessKind kind, MemoryPiece& out) noexcept {
  const auto found = pages_.find(address / kSpacePageBytes);
  if (found != pages_.end() && !found->second.valid) {  // swapped out
    if (const auto back = manager_.page_in(address / kSpacePageBytes); back) found->second = *back;
  }
  if (found == pages_.end() || !found->second.valid) {
    const bool remote = kind >= AccessKind::kRemoteRead;  // a local access completes with an error
    if (remote) static_cast<void>(faults_.push({address, pd}));
    return AccessFault::kNotMapped;
  }
  const PageEntry& entry = found->second;
  const bool writes = kind == AccessKind::kLocalWrite || kind == AccessKind::kRemoteWrite;
  const bool reads = kind == AccessKind::kLocalRead || kind == AccessKind::kRemoteRead;
  if ((!reads && !entry.write) || (!writes && !entry.read)) return AccessFault::kRightMissing;
  const uint64_t offset = address % kSpacePageBytes;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a physical page is a page of this process
  out = {reinterpret_cast<std::byte*>(entry.physical * kSpacePageBytes + offset), kSpacePageBytes - offset};
  return AccessFault::kNone;
}

AccessFault AddressSpaces::translate(PdId pd, AddressKind kind, uint64_t address, AccessKind access,
                                     MemoryPiece& out) noexcept {
  switch (kind) {
    case AddressKind::kEffective: {
      const auto owner = owners_.find(pd);
      const std::optional<uint64_t> virtual_address =
          owner == owners_.end() ? std::nullopt : to_virtual(owner->second.process, address);
      return virtual_address ? find_page(pd, *virtual_address, access, out) : AccessFault::kNotValid;
    }
    case AddressKind::kVirtual:
      return find_page(pd, address, access, out);
    case AddressKind::kPhysical:
      // NOLINTNEXTLINE(performance-no-int-to-ptr): physical memory is that of this process
      out = {reinterpret_cast<std::byte*>(address), kSpacePageBytes - address % kSpacePageBytes};
      return AccessFault::kNone;
  }
  return AccessFault::kNotValid;
}

Refusable<> AddressSpaces::authorise(PdId pd, AddressKind kind, uint64_t address, uint64_t length) {
  const auto owner = owners_.find(pd);
  if (owner == owners_.end())
    return Refusal{Reason::kWrongMoment, "reg_addresses: the protection domain belongs to no process"};
  if (length == 0 || length - 1 > std::numeric_limits<uint64_t>::max() - address)
    return Refusal{Reason::kBadRange, "reg_addresses: no range of addresses"};
  if (kind != AddressKind::kEffective) {
    if (owner->second.mode == ProcessMode::kKernel) return {};
    return Refusal{Reason::kConfined,
                   "reg_addresses: a user process names memory by effective addresses only"};
  }
  fetch(owner->second.process);
  const uint64_t last = (address + (length - 1)) / kSegmentBytes;
  for (uint64_t segment = address / kSegmentBytes; segment <= last; ++segment) {
    if (!to_virtual(owner->second.process, segment * kSegmentBytes))
      return Refusal{Reason::kBadRange, "reg_addresses: no valid segment of the process covers the range"};
  }
  return {};
}

Refusable<MemoryRegion> AddressSpaces::reg_addresses(PdId pd, AddressKind kind, uint64_t address,
                                                     uint64_t length, Access access,
                                                     const RegisterOptions& options) {
  if (Refusable<> status = authorise(pd, kind, address, length); !status) return status.error();
  RegisterOptions named = options;
  if (!named.base_addr && !has(access, Access::kZeroBased)) named.base_addr = address;
  return table_.regions.reg_translated(pd, std::make_unique<SpaceTranslation>(*this, pd, kind, address),
                                       length, access, named);
}

Refusable<MemoryRegion> AddressSpaces::bind_rkey(PdId pd, Rkey key, AddressKind kind, uint64_t address,
                                                 uint64_t length, Access access) {
  if (kind == AddressKind::kPhysical)
    return Refusal{Reason::kBadOption, "bind_rkey: only effective and virtual addresses can be bound"};
  if (Refusable<> status = authorise(pd, kind, address, length); !status) return status.error();
  return table_.windows.bind_translated(pd, std::make_unique<SpaceTranslation>(*this, pd, kind, address),
                                        {.window = key, .addr = address, .length = length, .access = access});
}

std::optional<PageFault> AddressSpaces::take_page_fault() noexcept {
  if (faults_.empty()) return std::nullopt;
  const PageFault fault = faults_.front();
  faults_.pop();
  return fault;
}

}  // namespace weft::adapter
